// Jobs: what they may read and write. A client names files and queues; the addresses are the operator's.

import { redisAddressOf } from '../base/redis-address.ts'
import { flag, ours } from './flag.ts'
import { badOption, boolean, formOf, text } from './flag-forms.ts'

const redisUrl = formOf('redis://HOST:PORT', (name, given) => {
  if (given === '' || redisAddressOf(given) !== null) return given
  throw badOption(name, `expected redis://HOST:PORT/DATABASE, got '${given.replace(/\/\/[^/@]*@/, '//')}'`)
})

const rabbitmqUrl = formOf('amqp://HOST:PORT', (name, given) => {
  const protocol = URL.parse(given)?.protocol
  if (given === '' || protocol === 'amqp:' || protocol === 'amqps:') return given
  throw badOption(name, `expected amqp://USER:PASSWORD@HOST:PORT, got '${given.replace(/\/\/[^/@]*@/, '//')}'`)
})

const brokers = formOf('HOST:PORT,HOST:PORT', (name, given) => {
  const list = given === '' ? [] : given.split(',').map((one) => one.trim())
  const wrong = list.find((one) => !/^[^\s:/]+:[0-9]{1,5}$|^\[[0-9a-f:]+\]:[0-9]{1,5}$/i.test(one))
  if (wrong !== undefined) throw badOption(name, `expected HOST:PORT, got '${wrong}'`)
  return list
})

export const jobFlags = [
  flag('allow-jobs', boolean, 'false', ours)
    .says('Run inference over files and queues at the lowest priority: /v2/jobs')
    .switches('jobs'),
  flag('jobs-dir', text('PATH'), '', ours).says('Folder below which jobs read and write files').to('jobs.filesRoot'),
  flag('jobs-redis', redisUrl, '', ours).says('Redis whose streams jobs read and write').to('jobs.redisUrl'),
  flag('jobs-rabbitmq', rabbitmqUrl, '', ours).says('RabbitMQ whose queues jobs read and write').to('jobs.rabbitmqUrl'),
  flag('jobs-kafka', brokers, '', ours).says('Kafka brokers whose topics jobs read and write').to('jobs.kafkaBrokers'),
]
