// Errors as the official OpenAI clients read them: {"error": {"message", "type", "param", "code"}}.

import { ServerError, withoutStack, type ErrorCode } from '../../base/server-error.ts'

/** An error that says which member of the request is wrong. */
export class OpenAiProblem extends ServerError {
  /** `messages[0].content`; null: no single member is wrong. */
  readonly param: string | null
  /** As OpenAI spells it, `context_length_exceeded`; null: OpenAI has no word for it. */
  readonly wireCode: string | null

  constructor(code: ErrorCode, message: string, param: string | null, wireCode: string | null) {
    super(code, message)
    this.param = param
    this.wireCode = wireCode
  }
}

export const badRequest = (
  message: string,
  param: string | null = null,
  wireCode: string | null = null,
): OpenAiProblem => withoutStack(() => new OpenAiProblem('INVALID_ARG', message, param, wireCode))

/** A model or this server cannot do what the member asks for. OpenAI answers 400, which clients do not try again. */
export const unsupported = (message: string, param: string | null = null): OpenAiProblem =>
  badRequest(message, param, 'unsupported_parameter')

/** A call that OpenAI has and this server has not. */
export const notImplemented = (message: string): OpenAiProblem =>
  withoutStack(() => new OpenAiProblem('UNSUPPORTED', message, null, 'not_implemented'))

type WireError = { readonly status: number; readonly type: string; readonly code: string | null }

const wireErrors: Readonly<Record<ErrorCode, WireError>> = {
  UNKNOWN: { status: 400, type: 'invalid_request_error', code: null },
  INVALID_ARG: { status: 400, type: 'invalid_request_error', code: null },
  ALREADY_EXISTS: { status: 400, type: 'invalid_request_error', code: null },
  CANCELLED: { status: 499, type: 'invalid_request_error', code: 'request_cancelled' },
  NOT_FOUND: { status: 404, type: 'invalid_request_error', code: 'model_not_found' },
  FORBIDDEN: { status: 403, type: 'invalid_request_error', code: 'permission_denied' },
  EXHAUSTED: { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded' },
  UNSUPPORTED: { status: 501, type: 'invalid_request_error', code: 'unsupported' },
  UNAVAILABLE: { status: 503, type: 'server_error', code: 'server_overloaded' },
  INTERNAL: { status: 500, type: 'server_error', code: null },
}

/** Backends say this of a prompt that does not fit, each in its own words. */
const isAboutContext =
  /\bcontext (?:length|size|window)\b|\bcontext (?:has|of) \d+ tokens\b|\bmaximum (?:model|context) length\b/i

type OpenAiErrorBody = {
  readonly error: {
    readonly message: string
    readonly type: string
    readonly param: string | null
    readonly code: string | null
  }
}

export const openAiStatus = ({ code }: ServerError): number => wireErrors[code].status

/** Backends name the sampling parameter that is wrong. OpenAI has another name for the schema of an answer. */
const samplingParameter = /^sampling_parameters: '(\w+)'/
const sentAs: Readonly<Record<string, string>> = { json_schema: 'response_format' }

function paramIn(message: string): string | null {
  const name = samplingParameter.exec(message)?.[1]
  return name === undefined ? null : (sentAs[name] ?? name)
}

export function openAiErrorBody(error: ServerError): OpenAiErrorBody {
  const { type, code } = wireErrors[error.code]
  const named = error instanceof OpenAiProblem ? error : null
  const isContext = error.code === 'INVALID_ARG' && isAboutContext.test(error.message)
  return {
    error: {
      message: error.message,
      type,
      param: named === null ? paramIn(error.message) : named.param,
      code: named?.wireCode ?? (isContext ? 'context_length_exceeded' : code),
    },
  }
}
