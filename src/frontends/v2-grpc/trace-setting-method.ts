import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import type { TraceChanges } from '../../model/trace-control.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'
import {
  parseCount,
  parseUnsigned,
  refuseTraceFile,
  traceLevelsOf,
  traceSettingTexts,
} from '../../protocol/trace-settings-json.ts'

/** TraceSetting: changes the settings that the request names, then answers with all. An empty list clears a setting. */
export function traceSettingMethod(engine: Engine): (request: MessageValue) => MessageValue {
  return (request) => {
    const modelName = request['modelName'] as string
    const control = engine.traceControl
    engine.requireTraceable(modelName)
    const settings = request['settings'] as ReadonlyMap<string, MessageValue>
    if (settings.size > 0) control.update(modelName, readChanges(settings))
    const texts = traceSettingTexts(control, modelName)
    return { settings: new Map(texts.map(([name, value]) => [name, { value }])) }
  }
}

function readChanges(settings: ReadonlyMap<string, MessageValue>): TraceChanges {
  if (settings.has('trace_file')) refuseTraceFile()
  const valuesOf = (name: string): readonly string[] | undefined =>
    settings.get(name)?.['value'] as readonly string[] | undefined
  const read = <T>(name: string, parse: (name: string, text: string) => T): T | null | undefined => {
    const values = valuesOf(name)
    if (values === undefined) return undefined
    if (values.length === 0) return null
    if (values.length > 1) throw ServerError.withoutStack('INVALID_ARG', `expect only 1 value for '${name}'`)
    return parse(name, values[0] as string)
  }
  const levels = valuesOf('trace_level')
  const changes = {
    levels: levels === undefined ? undefined : levels.length === 0 ? null : traceLevelsOf(levels),
    rate: read('trace_rate', parseUnsigned),
    count: read('trace_count', (name, text) => parseCount(name, text, ' ')),
    logFrequency: read('log_frequency', parseUnsigned),
  }
  return Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)) as TraceChanges
}
