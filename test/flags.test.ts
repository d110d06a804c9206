import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Flag, readFlags } from '../src/flags.ts'
import { UsageError } from '../src/values.ts'

const KNOWN: readonly Flag[] = [
  { flag: '--port', value: 'N' },
  { flag: '--host', value: 'ADDRESS' },
  { flag: '--api-key', value: 'KEY', repeats: true },
  { flag: '--demo', switch: '1' },
  { flag: '--no-page', switch: '0' },
  { flag: '--help' },
]

interface Accepted {
  behaviour: string
  args: string[]
  texts: Record<string, string>
}

const ACCEPTED: readonly Accepted[] = [
  { behaviour: 'reads an empty command line', args: [], texts: {} },
  { behaviour: 'reads a value behind its flag', args: ['--port', '80'], texts: { '--port': '80' } },
  { behaviour: 'reads a value behind =', args: ['--port=80'], texts: { '--port': '80' } },
  { behaviour: 'keeps a = that belongs to the value', args: ['--api-key=a=b=='], texts: { '--api-key': 'a=b==' } },
  { behaviour: 'reads a value that begins with a dash', args: ['--port', '-1'], texts: { '--port': '-1' } },
  { behaviour: 'reads a flag as a value where = says so', args: ['--host=--port'], texts: { '--host': '--port' } },
  { behaviour: 'reads an empty value behind its flag', args: ['--port', ''], texts: { '--port': '' } },
  { behaviour: 'reads an empty value behind =', args: ['--port='], texts: { '--port': '' } },
  { behaviour: 'lets the last value count', args: ['--port', '1', '--port=2'], texts: { '--port': '2' } },
  {
    behaviour: 'joins the values of a flag that may be given again',
    args: ['--api-key', 'a', '--port', '1', '--api-key=b', '--api-key', 'c'],
    texts: { '--api-key': 'a,b,c', '--port': '1' },
  },
  {
    behaviour: 'gives a switch the text that it stands for',
    args: ['--demo', '--no-page', '--help', '--demo'],
    texts: { '--demo': '1', '--no-page': '0', '--help': '' },
  },
]

interface Refused {
  behaviour: string
  args: string[]
  message: string
}

const REFUSED: readonly Refused[] = [
  { behaviour: 'an argument that is no flag', args: ['--demo', '8080'], message: 'unexpected argument "8080"' },
  { behaviour: 'an argument in front of flags', args: ['serve', '--demo'], message: 'unexpected argument "serve"' },
  { behaviour: 'an argument with a control character', args: ['a\nb'], message: 'unexpected argument "a\\nb"' },
  { behaviour: 'an empty argument', args: [''], message: 'unexpected argument ""' },
  { behaviour: 'a lone dash', args: ['-'], message: 'unexpected argument "-"' },
  { behaviour: 'the end of flags', args: ['--', '--demo'], message: 'unexpected argument "--"' },
  {
    behaviour: 'a flag without its value at the end',
    args: ['--demo', '--port'],
    message: '--port must be followed by its value: --port N',
  },
  {
    behaviour: 'a flag in the place of the value',
    args: ['--api-key', '--no-page'],
    message: '--api-key must be followed by its value: --api-key KEY',
  },
  { behaviour: 'a switch with a value', args: ['--demo=1'], message: '--demo "1" must be without a value' },
  { behaviour: 'a switch with an empty value', args: ['--demo='], message: '--demo "" must be without a value' },
]

const NEAREST: readonly [unknown: string, nearest: string][] = [
  ['--prot', '--port'],
  ['--por', '--port'],
  ['--portt', '--port'],
  ['--Port', '--port'],
  ['--hots', '--host'],
  ['--apikey', '--api-key'],
  ['--api_keys', '--api-key'],
  ['--nopage', '--no-page'],
  ['--no-demo', '--demo'],
  ['--hepl', '--help'],
  ['-port', '--port'],
  ['--__proto__', '--port'],
]

describe('readFlags()', () => {
  for (const { behaviour, args, texts } of ACCEPTED) {
    test(behaviour, () => {
      assert.deepEqual(Object.fromEntries(readFlags(args, KNOWN)), texts)
    })
  }

  for (const { behaviour, args, message } of REFUSED) {
    test(`refuses ${behaviour}`, () => {
      assert.throws(() => readFlags(args, KNOWN), new UsageError(message))
    })
  }

  for (const [unknown, nearest] of NEAREST) {
    test(`refuses ${unknown} and names ${nearest}, the nearest that it knows`, () => {
      const name = unknown.startsWith('--') ? unknown : unknown.slice(0, 2)
      assert.throws(() => readFlags([unknown], KNOWN), new UsageError(`unknown flag ${name}; did you mean ${nearest}?`))
    })
  }

  test('names an unknown flag without its value, which may be a secret', () => {
    const message = 'unknown flag --api-kye; did you mean --api-key?'
    assert.throws(() => readFlags(['--api-kye=a-secret'], KNOWN), new UsageError(message))
  })
})
