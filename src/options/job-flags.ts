// Jobs: what they may read and write. A client names files and queues; the addresses are the operator's.

import { messageOf } from '../base/server-error.ts'
import { redisAddressOf } from '../base/redis-address.ts'
import { flag, ours, repeatable } from './flag.ts'
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

/** The body of POST /v2/jobs. Its keys are checked when the job begins. */
const job = formOf('JSON', (name, given) => {
  try {
    return given === '' ? null : (JSON.parse(given) as unknown)
  } catch (reason) {
    throw badOption(name, `expected the body of POST /v2/jobs, as {"model": …, "input": …}: ${messageOf(reason)}`)
  }
})

export const jobFlags = [
  flag('allow-jobs', boolean, 'false', ours)
    .says('Run inference over files and queues at the lowest priority: /v2/jobs')
    .switches('jobs'),
  flag('job', job, '', { ...ours, ...repeatable })
    .says('Job that begins with the server, as the body of POST /v2/jobs; it is kept by its text')
    .set('jobs.atStart', (flags) => flags.all('job').map((given) => ({ text: given, body: job.parse('job', given) }))),
  flag('jobs-dir', text('PATH'), '', ours).says('Folder below which jobs read and write files').to('jobs.filesRoot'),
  flag('jobs-redis', redisUrl, '', ours).says('Redis whose streams jobs read and write').to('jobs.redisUrl'),
  flag('jobs-rabbitmq', rabbitmqUrl, '', ours).says('RabbitMQ whose queues jobs read and write').to('jobs.rabbitmqUrl'),
  flag('jobs-kafka', brokers, '', ours).says('Kafka brokers whose topics jobs read and write').to('jobs.kafkaBrokers'),
]
