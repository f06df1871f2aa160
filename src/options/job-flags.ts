// Jobs: what they may read and write. A client names files and queues; the addresses are the operator's.

import { messageOf } from '../base/server-error.ts'
import { redisAddressOf } from '../base/redis-address.ts'
import { flag, ours, repeatable } from './flag.ts'
import { badOption, boolean, formOf, integer, text } from './flag-forms.ts'

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

const cloudPlace = formOf('s3://BUCKET/FOLDER', (name, given) => {
  if (given === '' || /^(?:s3|gs|as):\/\/[^?#@]+$/i.test(given)) return given
  throw badOption(name, `expected s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or as://ACCOUNT/CONTAINER/FOLDER, got '${given.replace(/\/\/[^/@]*@/, '//').replace(/[?#].*$/, '')}'`) // prettier-ignore
})

/** What all stores take: 5 MiB or more, and steps of 256 KiB. */
const smallestPartBytes = 5 * 1024 * 1024
const partStepBytes = 256 * 1024
const partBytes = formOf('BYTES', (name, given) => {
  const size = integer(smallestPartBytes, 1024 * 1024 * 1024).parse(name, given)
  if (size % partStepBytes !== 0) throw badOption(name, `expected a multiple of ${partStepBytes}, got ${size}`)
  return size
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
  flag('jobs-cloud', cloudPlace, '', { ...ours, ...repeatable })
    .says('Place in S3, Google Cloud Storage or Azure below which jobs read and write files')
    .set('jobs.cloudRoots', (flags) => flags.all('jobs-cloud').map((given) => cloudPlace.parse('jobs-cloud', given)).filter((one) => one !== '')), // prettier-ignore
  flag('jobs-cloud-part-bytes', partBytes, '16777216', ours)
    .says('Parts in which jobs write a file to a cloud; a file has 10,000 parts at most')
    .to('jobs.cloudPartBytes'),
  flag('jobs-redis', redisUrl, '', ours).says('Redis whose streams jobs read and write').to('jobs.redisUrl'),
  flag('jobs-rabbitmq', rabbitmqUrl, '', ours).says('RabbitMQ whose queues jobs read and write').to('jobs.rabbitmqUrl'),
  flag('jobs-kafka', brokers, '', ours).says('Kafka brokers whose topics jobs read and write').to('jobs.kafkaBrokers'),
]
