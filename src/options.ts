import { randomBytes } from 'node:crypto'
import type { Writable } from 'node:stream'
import { inspect } from 'node:util'
import { getHeapStatistics } from 'node:v8'
import { isApiKey, KEY_MUST_BE } from './http/bearer.ts'
import { type NewPet, validateNewPets } from './pets/pet.ts'
import type { PetstoreOptions } from './types.ts'

type WithDefault = Exclude<keyof PetstoreOptions, 'cors' | 'logStream' | 'snapshot' | 'controlPort'>
export type Options = PetstoreOptions & { [K in WithDefault]: NonNullable<PetstoreOptions[K]> }

const HEAP_LIMIT = getHeapStatistics().heap_size_limit

// prettier-ignore
export const DEFAULTS: Omit<Pick<Options, WithDefault>, 'apiKeys'> = {
  basePath: '/v1', pets: [], getPet: 'deprecated', delay: 0, page: true, journal: 1_000, log: 'off',
  maxBody: 64 * 2 ** 10, maxStore: Math.min(Math.floor(HEAP_LIMIT / 4), 256 * 2 ** 20),
  port: 0, host: '127.0.0.1', maxConnections: 10_000, keepAlive: 75, controlHost: '127.0.0.1',
}

/** What a value must be. */
export interface Rule<T> {
  readonly mustBe: string
  isType(value: unknown): value is T // else a TypeError
  isInRange?(value: T): boolean // else a RangeError
  readonly isSecret?: true // no message shows the value
}

const isString = (value: unknown): value is string => typeof value === 'string'

export function integer(minimum: number, maximum: number, more = ''): Rule<number> {
  const isInRange = (value: number) => Number.isInteger(value) && value >= minimum && value <= maximum
  const mustBe = `an integer from ${minimum} to ${maximum}${more}`
  return { mustBe, isType: (value) => typeof value === 'number', isInRange }
}

export function oneOf<const T extends string>(words: readonly T[]): Rule<T> {
  const isType = (value: unknown): value is T => isString(value)
  return { mustBe: `one of ${words.join(', ')}`, isType, isInRange: (value) => words.includes(value) }
}

const string = (mustBe: string, isInRange: (text: string) => boolean) => ({ mustBe, isType: isString, isInRange })

export const OPERATIONS = ['listPets', 'createPet', 'getPet', 'listOrders'] as const

export const DELAY: Rule<number | readonly [min: number, max: number]> = {
  mustBe: 'an integer from 0 to 600000, or a range of that: [MIN, MAX], as a flag MIN-MAX',
  isType: (value): value is number | [number, number] =>
    (!Array.isArray(value) || value.length === 2) && [value].flat().every((ms) => typeof ms === 'number'),
  isInRange: (value) =>
    [0, value, 600_000].flat().every((ms, at, all) => Number.isInteger(ms) && ms >= (all[at - 1] ?? 0)),
}

export const BOOLEAN: Rule<boolean> = { mustBe: 'true or false', isType: (value) => typeof value === 'boolean' }

const PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)+$/
const HOST = string('a host name or an IP address', (host) => /^[\w.:%-]+$/.test(host))
const PORT = integer(0, 65_535)

const isOrigin = (text: string) => text === '*' || (URL.canParse(text) && new URL(text).origin === text)
const isStrings = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && Array.from(value).every(isString)
const isPets = (value: unknown): value is readonly NewPet[] => Array.isArray(value)
const isWritable = (value: unknown): value is Writable =>
  ['write', 'on'].every((name) => typeof Object(value)[name] === 'function')
const areKeys = (keys: readonly string[]) => keys.length > 0 && keys.every(isApiKey)

// prettier-ignore
export const RULES: { readonly [K in keyof PetstoreOptions]-?: Rule<NonNullable<PetstoreOptions[K]>> } = {
  basePath: string('a path such as /v1 or /shop/v1: segments of A-Z a-z 0-9 - . _ ~, no slash at the end', (path) => PATH.test(path)),
  apiKeys: { mustBe: `an array of one key or more, each ${KEY_MUST_BE}`, isType: isStrings, isInRange: areKeys, isSecret: true },
  pets: { mustBe: 'an array of NewPet', isType: isPets },
  maxBody: integer(1, 256 * 2 ** 20),
  maxStore: integer(1, Math.floor(HEAP_LIMIT / 2), ", half of V8's heap limit: node --max-old-space-size=MB raises it"),
  getPet: oneOf(['deprecated', 'gone']),
  delay: DELAY,
  page: BOOLEAN,
  cors: string('an origin such as https://shop.example, without a path, or *', isOrigin),
  journal: integer(0, 1_000_000),
  log: oneOf(['text', 'json', 'off']),
  logStream: { mustBe: 'a stream to write to', isType: isWritable },
  port: PORT,
  host: HOST,
  snapshot: string('the path of a file', (path) => path !== ''),
  maxConnections: integer(1, 1_000_000),
  keepAlive: integer(1, 86_400),
  controlPort: PORT,
  controlHost: HOST,
}

const SOCKET_ONLY = new Set(['port', 'host', 'snapshot', 'maxConnections', 'keepAlive', 'controlPort', 'controlHost'])
const CREATE_RULES = Object.fromEntries(Object.entries(RULES).filter(([name]) => !SOCKET_ONLY.has(name)))

/** Checks options and fills in defaults. A TypeError or RangeError names the option, the value and what it must be. */
export function readOptions(given: PetstoreOptions, hasSocket: boolean): Options {
  checkMembers('options', given, hasSocket ? RULES : CREATE_RULES)
  const defined = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  const apiKeys = [randomBytes(24).toString('base64url')]
  return { ...DEFAULTS, apiKeys, ...defined, pets: readNewPets('pets', given.pets ?? []) }
}

/** @throws TypeError that names the first pet that is wrong, and what is wrong with it. */
export function readNewPets(name: string, input: unknown): NewPet[] {
  const pets = validateNewPets(input)
  if (pets.ok) return pets.value
  throw new TypeError(`${name} must be an array of NewPet: ${pets.issues.join('; ')}`)
}

/** Checks an object against the rules of its members; undefined counts as omitted. */
export function checkMembers(
  what: string,
  input: unknown,
  rules: Readonly<Record<string, Rule<unknown>>>,
): asserts input is object {
  if (typeof input !== 'object' || input === null) throw new TypeError(`${what} ${show(input)} must be an object`)
  for (const [name, value] of Object.entries(input)) {
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined
    if (rule === undefined) {
      const plural = Object.hasOwn(rules, `${name}s`) ? `: it is ${name}s` : ''
      throw new TypeError(`${what} must not have ${show(name)}${plural}; known are ${Object.keys(rules).join(', ')}`)
    }
    if (value !== undefined) check(name, value, rule)
  }
}

export function check<T>(name: string, value: unknown, { mustBe, isType, isInRange, isSecret }: Rule<T>): void {
  const isText = typeof value === 'string' && mustBe.startsWith('an array') ? ', not a string' : ''
  const message = () => `${name} ${isSecret ? '' : `${show(value)} `}must be ${mustBe}${isText}`
  if (!isType(value)) throw new TypeError(message())
  if (isInRange?.(value) === false) throw new RangeError(message())
}

function show(value: unknown): string {
  return inspect(value, { depth: 0, maxStringLength: 100, maxArrayLength: 3, breakLength: Infinity })
}
