import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as fc from 'fast-check'
import { FlagError, UnknownFlagError } from '../options/flag-forms.ts'
import { environmentName, flagTable } from '../options/flag-table.ts'
import { misspeltVariables, parseFlags } from './parse-flags.ts'

const refusal = (args: string[], environment = {}): string => {
  try {
    parseFlags(args, environment)
  } catch (reason) {
    assert.ok(reason instanceof FlagError, String(reason))
    return reason.message
  }
  throw new Error(`accepted: ${args.join(' ')}`)
}

describe('the form of a flag', () => {
  test('--a=b and --a b mean the same', () => {
    assert.equal(parseFlags(['--http-port=9000'], {}).number('http-port'), 9000)
    assert.equal(parseFlags(['--http-port', '9000'], {}).number('http-port'), 9000)
  })

  test('a value may hold equals signs and may be empty', () => {
    assert.equal(parseFlags(['--id=a=b'], {}).text('id'), 'a=b')
    assert.equal(parseFlags(['--id='], {}).text('id'), '')
  })

  test('booleans are true, on, 1, false, off and 0 in any case', () => {
    for (const word of ['true', 'TRUE', 'On', '1']) {
      assert.equal(parseFlags([`--exit-on-error=${word}`], {}).isOn('exit-on-error'), true)
    }
    for (const word of ['false', 'False', 'OFF', '0']) {
      assert.equal(parseFlags(['--exit-on-error', word], {}).isOn('exit-on-error'), false)
    }
    assert.match(
      refusal(['--exit-on-error=maybe']),
      /^Bad option: "--exit-on-error"\.\ninvalid value for bool option: maybe/,
    )
    assert.match(refusal(['--exit-on-error', 'maybe']), /invalid value for bool option: maybe/)
  })

  test('a bare boolean flag is true and leaves the next flag alone', () => {
    const flags = parseFlags(['--triton-defaults', '--reuse-http-port', '--http-port', '1'], {})
    assert.equal(flags.isOn('triton-defaults'), true)
    assert.equal(flags.isOn('reuse-http-port'), true)
    assert.equal(flags.number('http-port'), 1)
  })

  test('--disable-auto-complete-config takes no value', () => {
    assert.equal(parseFlags(['--disable-auto-complete-config'], {}).isOn('disable-auto-complete-config'), true)
    assert.equal(
      refusal(['--disable-auto-complete-config=true']),
      "option '--disable-auto-complete-config' doesn't allow an argument",
    )
  })

  test('a number may have blanks around it, and nothing else', () => {
    assert.equal(parseFlags(['--http-port= 9000 '], {}).number('http-port'), 9000)
    for (const text of ['9000x', '90 00', '1.5', '0x50', ' ', '']) {
      assert.match(refusal([`--http-port=${text}`]), /^Bad option: "--http-port"\.\nInvalid option value/)
    }
  })

  test('a verbose level below 0 is 0', () => {
    assert.equal(parseFlags(['--log-verbose=-1'], {}).number('log-verbose'), 0)
  })

  test('a setting has a name and a value', () => {
    for (const [flag, format] of [
      ['backend-config', "'<backend name>,<setting>=<value>'"],
      ['cache-config', "'<cache name>,<setting>=<value>'"],
      ['trace-config', "'<trace mode>,<setting>=<value>'"],
      ['host-policy', "'<policy name>,<setting>=<value>'"],
      ['metrics-config', '<setting>=<value>'],
    ]) {
      const reason = `Bad option: "--${flag}".\n--${flag} option format is ${format}. Got owner,key=`
      assert.equal(refusal([`--${flag}=owner,key=`]), reason)
    }
  })

  test("a setting without the name before its comma is refused in Triton's words", () => {
    const reason = (flag: string): string | undefined => refusal([`--${flag}=,b=c`]).split('\n')[1]
    const backend = '--backend-config option format is <backend name>,<setting>=<value> or <setting>=<value>'
    assert.equal(reason('backend-config'), `No backend specified. ${backend}. Got ,b=c`)
    const trace = '--trace-config option format is <trace mode>,<setting>=<value> or <setting>=<value>'
    assert.equal(reason('trace-config'), `No trace mode specified. ${trace}. Got ,b=c`)
    const cache = '--cache-config option format is <cache name>,<setting>=<value>'
    assert.equal(reason('cache-config'), `No cache specified. ${cache}. Got ,b=c`)
    assert.equal(reason('metrics-config'), '--metrics-config option format is <setting>=<value>. Got ,b=c')
  })

  test('two numbers of one flag are told apart from one that is no number', () => {
    const reason = (given: string): string | undefined =>
      refusal([`--cuda-memory-pool-byte-size=${given}`]).split('\n')[1]
    const format = '--<pair option> argument requires format <first>:<second>. Found: 0'
    assert.equal(reason('0'), `Cannot parse pair option due to incorrect number of inputs.${format}`)
    assert.equal(reason('0:x'), 'Invalid option value. Got x')
    assert.match(refusal(['--sagemaker-safe-port-range=1']), /format <first>-<second>\. Found: 1$/m)
    assert.match(refusal(['--sagemaker-safe-port-range=1-2.5']), /^Invalid option value\. Got 2\.5$/m)
    assert.match(refusal(['--min-supported-compute-capability=x']), /^Invalid option value\. Got x$/m)
  })

  test("Triton's lines stay as they are; what was expected stands on a line of its own", () => {
    for (const [given, line] of [
      ['--http-port=x', 'Invalid option value. Got x'],
      ['--http-port=99999999999', 'Provided option value is out of bound. Got 99999999999'],
      ['--log-info=yes', 'invalid value for bool option: yes'],
      ['--trace-level=x', 'invalid value for trace level option: x'],
      ['--grpc-infer-response-compression-level=x', 'invalid argument for --grpc_infer_response_compression_level'],
      ['--http-restricted-api=x', "--http-restricted-api option format is '<config name>:<setting>=<value>'. Got x"],
      ['--http-restricted-api=nope:k=v', "unknown restricted api 'nope' "],
      ['--grpc-restricted-protocol=nope:k=v', "unknown restricted protocol 'nope' "],
    ] as const) {
      const lines = refusal([given]).split('\n')
      assert.equal(lines[1], line)
      assert.match(lines[2] ?? '', /^(expected|there are) /)
    }
  })

  test("Triton's words may have capital letters where Triton takes them", () => {
    for (const taken of [
      'model-control-mode=Explicit',
      'rate-limit=OFF',
      'grpc-infer-response-compression-level=LOW',
    ]) {
      parseFlags([`--${taken}`], {})
    }
    assert.match(refusal(['--log-format=iso8601']), /expected default, ISO8601, json, got 'iso8601'/)
  })

  test('a flag without effect takes every number that Triton takes', () => {
    for (const taken of [
      'http-thread-count=0',
      'grpc-infer-allocation-pool-size=-1',
      'buffer-manager-thread-count=-1',
    ]) {
      parseFlags([`--${taken}`], {})
    }
  })

  test('an empty gRPC address is refused: it would be every address', () => {
    assert.match(refusal(['--grpc-address=']), /"--grpc-address".*expected ADDRESS, got ''/s)
  })

  test('two dashes end the flags, and nothing may follow them', () => {
    assert.equal(parseFlags(['--id=x', '--'], {}).text('id'), 'x')
    assert.match(refusal(['--', 'x']), /^Unexpected argument: --/)
  })

  test('a flag that needs a value says so when there is none', () => {
    assert.equal(refusal(['--http-port']), "option '--http-port' requires an argument")
    assert.equal(refusal(['--http-port', '--id=x']), "option '--http-port' requires an argument")
  })

  test('numbers are whole and within their bounds', () => {
    assert.match(refusal(['--http-port=abc']), /^Bad option: "--http-port"\.\nInvalid option value\. Got abc/)
    assert.match(refusal(['--http-port=1.5']), /Invalid option value/)
    assert.match(refusal(['--http-port=65536']), /out of bound\. Got 65536\nexpected 0 to 65535$/)
    assert.match(refusal(['--http-max-input-size=0']), /out of bound/)
    assert.match(refusal(['--exit-timeout-secs', '-1']), /out of bound/)
    assert.equal(parseFlags(['--http-headers-timeout-secs=0.25'], {}).number('http-headers-timeout-secs'), 250)
  })

  test('log-verbose is a level or a boolean', () => {
    assert.equal(parseFlags(['--log-verbose=3'], {}).number('log-verbose'), 3)
    assert.equal(parseFlags(['--log-verbose=true'], {}).number('log-verbose'), 1)
    assert.equal(parseFlags(['--log-verbose=false'], {}).number('log-verbose'), 0)
  })

  test('a word that is not among the choices is refused in Triton words', () => {
    assert.match(refusal(['--model-control-mode=sometimes']), /^invalid argument for --model-control-mode$/m)
  })

  test('a repeatable flag keeps all its values in order, another one the last', () => {
    const flags = parseFlags(['--load-model=a', '--load-model', 'b', '--id=x', '--id=y'], {})
    assert.deepEqual(flags.all('load-model'), ['a', 'b'])
    assert.equal(flags.text('id'), 'y')
  })

  test('what is not a flag is refused', () => {
    assert.match(refusal(['models']), /^Unexpected argument: models\n.*--model-repository/)
    assert.match(refusal(['-p']), /^invalid option -- 'p'\n/)
  })

  test('any list of words is parsed or refused with a FlagError', () => {
    const names = flagTable.map((flag) => `--${flag.name}`)
    const word = fc.oneof(
      fc.constantFrom(...names),
      fc.string(),
      fc.tuple(fc.constantFrom(...names), fc.string()).map(([a, b]) => `${a}=${b}`),
    )
    fc.assert(
      fc.property(fc.array(word, { maxLength: 5 }), (args) => {
        try {
          parseFlags(args, {})
        } catch (reason) {
          assert.ok(reason instanceof FlagError, String(reason))
        }
      }),
    )
  })
})

describe('an unknown flag', () => {
  test('is refused with the nearest known one', () => {
    assert.throws(
      () => parseFlags(['--model-repositroy=x'], {}),
      (error: unknown) => error instanceof UnknownFlagError && error.hint === "did you mean '--model-repository'?",
    )
  })

  test('that is the beginning of one flag stands for it, and of several is refused', () => {
    assert.deepEqual(parseFlags(['--log-warn=false'], {}), parseFlags(['--log-warning=false'], {}))
    assert.deepEqual(parseFlags(['--model-repo', 'a', '--model-repository=b'], {}), parseFlags(['--model-repository=a', '--model-repository=b'], {})) // prettier-ignore
    assert.throws(() => parseFlags(['--log-f=x'], {}), {
      name: 'FlagError',
      message: "option '--log-f' is ambiguous; possibilities: '--log-format' '--log-file'",
    })
    // --allow-model-uploads is no flag of Triton.
    assert.deepEqual(parseFlags(['--allow-m=false'], {}), parseFlags(['--allow-metrics=false'], {}))
    assert.throws(() => parseFlags(['--=x'], {}), UnknownFlagError)
  })

  test('that resembles nothing is refused without a guess', () => {
    assert.throws(
      () => parseFlags(['--zebra'], {}),
      (error: unknown) =>
        error instanceof UnknownFlagError && error.hint === '' && error.message === "unrecognized option '--zebra'",
    )
  })
})

describe('flags of Triton that this version does not act on', () => {
  test('are accepted and named', () => {
    const flags = parseFlags(['--cuda-virtual-address-size=0:1', '--http-port=8', '--http-thread-count=7'], {})
    assert.deepEqual(flags.withoutEffect(), ['--http-thread-count', '--cuda-virtual-address-size'])
  })

  test('have the form of their values checked', () => {
    assert.match(refusal(['--grpc-port=x']), /Bad option: "--grpc-port"/)
    assert.match(refusal(['--grpc-infer-thread-count=1']), /expected 2 to 128/)
    assert.match(refusal(['--rate-limit-resource=R']), /<resource_name>:<count>/)
    assert.match(refusal(['--cache-config=local']), /No cache specified/)
  })

  test('need no warning when they ask for what happens anyway', () => {
    assert.deepEqual(
      parseFlags(['--allow-grpc=off', '--rate-limit=off', '--allow-metrics', 'false'], {}).withoutEffect(),
      [],
    )
  })
})

describe('environment variables', () => {
  test('GALATEA_… sets a flag, the command line beats it', () => {
    const environment = { GALATEA_HTTP_PORT: '7000', GALATEA_EXIT_ON_ERROR: 'off' }
    assert.equal(parseFlags([], environment).number('http-port'), 7000)
    assert.equal(parseFlags([], environment).isOn('exit-on-error'), false)
    assert.equal(parseFlags(['--http-port=7001'], environment).number('http-port'), 7001)
  })

  test('semicolons separate the values of a repeatable flag; the command line replaces them all', () => {
    const environment = { GALATEA_LOAD_MODEL: 'a;b;' }
    assert.deepEqual(parseFlags([], environment).all('load-model'), ['a', 'b'])
    assert.deepEqual(parseFlags(['--load-model=c', '--load-model=d'], environment).all('load-model'), ['c', 'd'])
  })

  test('an empty one is not set, a bad one is named', () => {
    assert.equal(parseFlags([], { GALATEA_HTTP_PORT: '' }).number('http-port'), 8000)
    assert.match(refusal([], { GALATEA_HTTP_PORT: 'x' }), /^environment variable GALATEA_HTTP_PORT: Bad option/)
  })

  test('one with a slip of the finger is noticed, others are left alone', () => {
    assert.deepEqual(
      misspeltVariables({ GALATEA_HTPP_PORT: '1', GALATEA_HTTP_PORT: '2', HTTP_PORT: '3', GALATEA_ZZZ: '' }),
      ['environment variable GALATEA_HTPP_PORT is not known; did you mean GALATEA_HTTP_PORT?'],
    )
  })
})

describe('the table', () => {
  test('has every name once, in kebab-case, with a sentence of help', () => {
    const names = flagTable.map((flag) => flag.name)
    assert.equal(new Set(names).size, names.length)
    for (const flag of flagTable) {
      assert.match(flag.name, /^[a-z0-9]+(-[a-z0-9]+)*$/)
      assert.ok(flag.help.length > 3, flag.name)
    }
  })

  test('has defaults that its own forms accept', () => {
    for (const flag of flagTable) {
      if (flag.form.kind === 'switch') continue
      for (const value of [flag.default, flag.traits.tritonDefault]) {
        if (value !== '') parseFlags([`--${flag.name}=${value}`], {})
      }
    }
  })

  test('gives each flag an environment variable of its own', () => {
    assert.equal(environmentName('http-port'), 'GALATEA_HTTP_PORT')
    assert.equal(new Set(flagTable.map((flag) => environmentName(flag.name))).size, flagTable.length)
  })
})
