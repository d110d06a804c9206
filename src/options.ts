import { randomUUID } from 'node:crypto'
import { URL } from 'node:url'
import { getHeapStatistics } from 'node:v8'
import { isApiKey, KEY_MUST_BE } from './http/keys.ts'
import type { Parsed } from './pets/json.ts'
import { validateInitialPets } from './pets/pet.ts'
import { BOOLEAN, checkMembers, integer, isString, matching, misuse } from './rules.ts'
import { oneOf, type Rule, type Rules, shape } from './rules.ts'
import type { InitialPet, StartOptions } from './types.ts'

type NoDefault = 'cors' | 'snapshot' | 'store' | 'controlPort'
type Complete<T> = { [K in keyof T]-?: NonNullable<T[K]> }
export type Options = StartOptions & Complete<Omit<StartOptions, NoDefault>>

const MIB = 2 ** 20
const HEAP_LIMIT = getHeapStatistics().heap_size_limit
const HEAP_HINT = ', half of the heap: NODE_OPTIONS=--max-old-space-size=MB raises it'

export const DEFAULTS = {
  port: 0,
  host: '127.0.0.1',
  basePath: '/v1',
  getPetState: 'deprecated',
  strict: false,
  maxBody: 64 * 2 ** 10,
  maxStore: Math.floor(Math.min(HEAP_LIMIT / 4, 256 * MIB)),
  maxConnections: 10_000,
  keepAlive: 75_000,
  log: 'off',
} as const satisfies StartOptions

export const API_KEYS: Rule = {
  mustBe: `a list of keys, each ${KEY_MUST_BE}`,
  isType: (value) => Array.isArray(value) && value.every(isString),
  isInRange: (value) => Array.isArray(value) && value.length > 0 && value.every(isApiKey),
  isSecret: true,
}

const PORT = integer(0, 65_535)
const STORE_FUNCTIONS = ['page', 'get', 'add', 'reset', 'isWritable', 'close']

export const RULES: Rules<keyof StartOptions> = {
  port: PORT,
  host: matching('a host name or an IP address', /^[\w.:-]+$/),
  basePath: matching(
    'empty, or a path such as /shop/v1: segments of A-Z a-z 0-9 - . _ ~, no slash at the end',
    /^(?:\/[\w.~-]+)*$/,
  ),
  apiKeys: API_KEYS,
  pets: shape('an array of pets', Array.isArray),
  snapshot: matching('the path of a file', /./s),
  store: {
    ...shape(`an object with the functions ${STORE_FUNCTIONS.join(', ')}`, isStore),
    isSecret: true, // a connection string may be given in its place
  },
  getPetState: oneOf('deprecated', 'gone'),
  strict: BOOLEAN,
  cors: {
    mustBe: 'origins such as https://shop.example, without a path, or *',
    isType: (value) => [value].flat().every(isString),
    isInRange: (value) => [value].flat().every(isOrigin),
  },
  maxBody: integer(1, 256 * MIB, ', as a setting also 64k or 1m'),
  maxStore: integer(1, Math.floor(HEAP_LIMIT / 2), HEAP_HINT),
  maxConnections: integer(1, 1_000_000),
  keepAlive: integer(1, 86_400_000),
  log: oneOf('text', 'json', 'off'),
  controlPort: PORT,
}

function isStore(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return STORE_FUNCTIONS.every((name) => typeof Reflect.get(value, name) === 'function')
}

function isOrigin(text: unknown): boolean {
  if (text === '*') return true
  if (!isString(text) || text.includes('*')) return false
  return URL.canParse(text) && new URL(text).origin === text
}

/** Checks options and fills in defaults. */
export function readOptions(given: StartOptions): Options {
  checkMembers('options', given, RULES)
  const other = (['snapshot', 'maxStore'] as const).find((name) => given[name] !== undefined)
  if (given.store && other) throw misuse(`${other} must be left out with store (--store)`)
  const members = Object.entries(given).filter(([, value]) => value !== undefined)
  const pets = petsOrThrow(validateInitialPets(given.pets ?? []))
  return { ...DEFAULTS, apiKeys: [randomUUID()], ...Object.fromEntries(members), pets }
}

/** The pets; throws an error that names the first wrong one. */
export function petsOrThrow<T extends InitialPet>(pets: Parsed<T[]>): T[] {
  if (pets.ok) return pets.value
  throw Object.assign(new TypeError(`pets are wrong: ${pets.reason}`), { code: 'invalid_pet' })
}
