import { randomUUID } from 'node:crypto'
import { URL } from 'node:url'
import { hasMembers } from '../guards.ts'
import { isApiKey, KEY_MUST_BE } from '../http/bearer.ts'
import { HEAP_LIMIT } from '../http/limits.ts'
import type { Parsed } from '../pets/json.ts'
import { validateInitialPets } from '../pets/pet.ts'
import {
  BOOLEAN,
  check,
  checkMembers,
  DELAY,
  integer,
  isString,
  matching,
  misuse,
  oneOf,
} from '../rules.ts'
import { type Rule, rule, secret, withCode } from '../rules.ts'
import type { PetstoreOptions, StartOptions } from '../types.ts'

type NoDefault = 'cors' | 'logStream' | 'snapshot' | 'store' | 'controlPort' | 'teacherKey'
type Complete<T> = { [K in keyof T]-?: NonNullable<T[K]> }
export type Options = StartOptions &
  Complete<Omit<StartOptions, NoDefault>> & { hasGeneratedKey: boolean }

const MIB = 2 ** 20

/** At most 256 MiB, a quarter of the heap, half of a container's memory beyond 200 MiB or 8 MiB. */
function defaultMaxStore(): number {
  const spare = (process.constrainedMemory() || Infinity) - 200 * MIB // 0: no limit is known
  return Math.floor(Math.min(HEAP_LIMIT / 4, 256 * MIB, Math.max(spare / 2, 8 * MIB)))
}

export const DEFAULTS: Omit<Options, 'apiKeys' | 'pets' | 'hasGeneratedKey'> = {
  basePath: '/v1',
  getPetState: 'deprecated',
  delay: 0,
  strict: false,
  storePerKey: false,
  page: true,
  maxRequests: 1_000,
  log: 'off',
  maxBody: 64 * 2 ** 10,
  maxStore: defaultMaxStore(),
  port: 0,
  host: '127.0.0.1',
  // At most one for each 64 KiB: an incomplete head takes 20 KiB, which nothing else bounds.
  maxConnections: Math.min(10_000, Math.floor(HEAP_LIMIT / (64 * 2 ** 10))),
  keepAlive: 75_000,
  unref: false,
  controlHost: '127.0.0.1',
}

type Rules<T> = { readonly [K in keyof T]-?: Rule<NonNullable<T[K]>> }

const PORT = integer(0, 65_535)
const HOST = matching('a host name or an IP address', /^[\w.:-]+$/)
const HEAP_HINT = ', half of the heap: NODE_OPTIONS=--max-old-space-size=MB raises it'

const isOrigin = (text: string) =>
  text === '*' || (!text.includes('*') && URL.canParse(text) && new URL(text).origin === text)
const isStrings = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && Array.from(value).every(isString) // no holes, which every() skips
function hasFunctions<T>(names: readonly string[]): (value: unknown) => value is T {
  return (value): value is T =>
    hasMembers(value) && names.every((name) => typeof value[name] === 'function')
}
const FUNCTIONS = ['page', 'get', 'add', 'reset', 'isWritable', 'close'] // of a Store

function wrongKey(keys: readonly string[]): string {
  const index = keys.findIndex((key) => !isApiKey(key))
  const { length = 0 } = keys[index] ?? []
  return index < 0 ? 'it is empty' : `item ${index + 1} has ${length} characters`
}

export const API_KEY: Rule<string> = secret(rule(KEY_MUST_BE, isString, isApiKey))

export const CREATE_RULES: Rules<PetstoreOptions> = {
  basePath: matching(
    'empty, or a path such as /shop/v1: segments of A-Z a-z 0-9 - . _ ~, no slash at the end',
    /^(?:\/[\w.~-]+)*$/,
  ),
  apiKeys: secret({
    mustBe: `a list of keys, each ${KEY_MUST_BE}`,
    isType: isStrings,
    isInRange: (keys) => keys.length > 0 && keys.every(isApiKey),
    detail: wrongKey,
  }),
  pets: rule('an array of NewPet', Array.isArray),
  maxBody: integer(1, 256 * MIB, ', as a setting also 64k or 1m'),
  maxStore: integer(1, Math.floor(HEAP_LIMIT / 2), HEAP_HINT),
  // A connection string may be given in its place.
  store: secret(
    rule(`an object with the functions ${FUNCTIONS.join(', ')}`, hasFunctions(FUNCTIONS)),
  ),
  getPetState: oneOf(['deprecated', 'gone']),
  delay: DELAY,
  strict: BOOLEAN,
  storePerKey: BOOLEAN,
  page: BOOLEAN,
  cors: rule(
    'origins such as https://shop.example, without a path, or *',
    (value): value is string | readonly string[] => isString(value) || isStrings(value),
    (value) => [value].flat().every(isOrigin),
  ),
  maxRequests: integer(0, 1_000_000),
  log: oneOf(['text', 'json', 'off']),
  logStream: rule('a stream to write to', hasFunctions(['write', 'listenerCount'])),
}

/** Of every option. createPetstore() has CREATE_RULES only. */
export const RULES: Rules<StartOptions> = {
  ...CREATE_RULES,
  port: PORT,
  host: HOST,
  snapshot: matching('the path of a file', /./s),
  maxConnections: integer(1, 1_000_000),
  keepAlive: integer(1, 86_400_000),
  unref: BOOLEAN,
  controlPort: PORT,
  controlHost: HOST,
  teacherKey: API_KEY,
}

const NOT_WITH_STORE = ['snapshot', 'storePerKey', 'maxStore'] as const

/** Checks options and fills in defaults. */
export function readOptions(given: StartOptions, rules: Rules<PetstoreOptions>): Options {
  checkMembers('options', given, rules)
  if (given.storePerKey && given.snapshot)
    throw misuse('snapshot (--snapshot) must be left out with storePerKey (--store-per-key)')
  const other = NOT_WITH_STORE.find((name) => given[name])
  if (given.store && other) throw misuse(`${other} must be left out with store`)
  checkTeacherKey(given)
  if (given.apiKeys) checkApiKeys(given.apiKeys, given.teacherKey)
  const members = Object.entries(given).filter(([, value]) => value !== undefined)
  const apiKeys = [randomUUID()]
  const hasGeneratedKey = given.apiKeys === undefined
  const pets = petsOrThrow(validateInitialPets(given.pets ?? []))
  return { ...DEFAULTS, apiKeys, ...Object.fromEntries(members), hasGeneratedKey, pets }
}

function checkTeacherKey({ teacherKey, storePerKey, controlPort }: StartOptions): void {
  if (teacherKey === undefined) return
  const name = 'teacherKey (--teacher-key)'
  if (!storePerKey) throw misuse(`${name} must be given with storePerKey (--store-per-key)`)
  if (controlPort === undefined)
    throw misuse(`${name} must be given with controlPort (--control-port)`)
}

/** Throws unless all are keys, and none of them is the teacher's. */
export function checkApiKeys(apiKeys: readonly string[], teacherKey?: string): void {
  check('apiKeys', apiKeys, CREATE_RULES.apiKeys)
  if (teacherKey === undefined || !apiKeys.includes(teacherKey)) return
  throw misuse('teacherKey (--teacher-key) must be none of the API keys')
}

/** The pets; throws an error that names the first invalid one. */
export function petsOrThrow<T>(pets: Parsed<T>): T {
  if (pets.ok) return pets.value
  throw withCode('invalid_pet', new TypeError(`pets must be an array of NewPet: ${pets.reason}`))
}
