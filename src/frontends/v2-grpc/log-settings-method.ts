import { logFormats, verboseLevelOf, type LogControl } from '../../base/log-control.ts'
import { ServerError } from '../../base/server-error.ts'
import { worded } from '../../model/worded-error.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

type Setting = MessageValue
type Apply = (setting: Setting, name: string, control: LogControl) => void

const flag =
  (key: 'isInfoOn' | 'isWarningOn' | 'isErrorOn'): Apply =>
  (setting, name, control) => {
    if (setting['boolParam'] === null) throw invalid(`expect boolean for '${name}'`)
    control.configure({ [key]: setting['boolParam'] as boolean })
  }

const textOf = (setting: Setting, name: string): string => {
  if (setting['stringParam'] === null) throw invalid(`expect string for '${name}'`)
  return setting['stringParam'] as string
}

/** In Triton's order. */
const members: readonly (readonly [name: string, apply: Apply])[] = [
  [
    'log_file',
    () => {
      throw worded('unsupported', { text: 'log file location can not be updated through network protocol' })
    },
  ],
  ['log_info', flag('isInfoOn')],
  ['log_warning', flag('isWarningOn')],
  ['log_error', flag('isErrorOn')],
  [
    'log_verbose_level',
    (setting, name, control) => {
      if (setting['uint32Param'] === null) throw invalid(`expect int32 for '${name}'`)
      control.configure({ verboseLevel: verboseLevelOf(setting['uint32Param'] as number) })
    },
  ],
  [
    'log_format',
    (setting, name, control) => {
      const text = textOf(setting, name)
      const format = logFormats.find((known) => known === text)
      if (format === undefined) throw invalid(`invalid argument for log_format, got: ${text}`)
      control.configure({ format })
    },
  ],
]

/** LogSettings: changes the settings that the request names, one after the other, then answers with all settings. */
export function logSettingsMethod(control: LogControl | null): (request: MessageValue) => MessageValue {
  return (request) => {
    if (control === null) throw ServerError.withoutStack('UNSUPPORTED', 'this server has no log settings')
    const given = request['settings'] as ReadonlyMap<string, Setting>
    for (const [name, apply] of members) {
      const setting = given.get(name)
      if (setting !== undefined) apply(setting, name, control)
    }
    const { settings } = control
    return {
      settings: new Map<string, Setting>([
        ['log_file', { stringParam: settings.file }],
        ['log_info', { boolParam: settings.isInfoOn }],
        ['log_warning', { boolParam: settings.isWarningOn }],
        ['log_error', { boolParam: settings.isErrorOn }],
        ['log_verbose_level', { uint32Param: settings.verboseLevel }],
        ['log_format', { stringParam: settings.format }],
      ]),
    }
  }
}
