import { isApiKey, KEY_MUST_BE } from './http/bearer.ts'
import { LIMITS, type Limits } from './http/limits.ts'
import type { LogFormat, LogStream } from './http/log.ts'
import { describeIssues, type NewPet, validateNewPets } from './pets/pet.ts'
import { BOOLEAN, checkMembers, integer, oneOf, type Rule, type Rules, shape, text } from './rules.ts'

/** How a petstore without a socket is set up; every option may be left out. */
export interface CreateOptions {
  /** Path that all operations stand under; `/v1` unless given. */
  basePath?: string | undefined
  /** Keys that are valid, each 8 to 256 characters of RFC 6750's token form; one is generated unless given. */
  apiKeys?: readonly string[] | undefined
  /** Animals that an empty store begins with, and comes back to by `reset()`, ids from 1 on; none unless given. */
  pets?: readonly NewPet[] | undefined
  /** Bytes that a request's body may have; 65,536 unless given. */
  maxBody?: number | undefined
  /** Bytes of animals' JSON that are kept, beyond which a create is answered 507; 256 MiB unless given. */
  maxStore?: number | undefined
  /** `gone` answers getPet with 410, as after its removal on 5 December 2030; `deprecated` unless given. */
  getPet?: 'deprecated' | 'gone' | undefined
  /** Whether `/` shows a page; true unless given. */
  page?: boolean | undefined
  /** Origin whose scripts may call, such as `https://shop.example`, or `*` for any; none unless given. */
  cors?: string | undefined
  /** How many of the latest requests `requests` holds; 1,000 unless given, 0 for none. */
  journal?: number | undefined
  /** Form of the log; `off` unless given. */
  log?: LogFormat | undefined
  /** Where the log goes; standard output unless given. */
  logStream?: LogStream | undefined
}

/** How a petstore that listens is set up; every option may be left out. */
export interface PetstoreOptions extends CreateOptions {
  /** Port to listen on; 0, the default, picks a free one. */
  port?: number | undefined
  /** Address to listen on; `127.0.0.1` unless given. */
  host?: string | undefined
  /** Path of the JSON file that keeps the animals; without one they end with the process. */
  snapshot?: string | undefined
  /** Open connections beyond which further ones are closed at once; 10,000 unless given. */
  maxConnections?: number | undefined
  /** Seconds that an idle connection is kept; 75 unless given. */
  keepAlive?: number | undefined
  /** Port of the test controls, 0 for a free one; there are none over HTTP unless given. */
  controlPort?: number | undefined
  /** Address that the test controls listen on; `127.0.0.1` unless given. */
  controlHost?: string | undefined
  /** Bounds on size and time of requests. */
  limits?: Partial<Limits> | undefined
}

type Defaulted = Exclude<
  keyof PetstoreOptions,
  'apiKeys' | 'cors' | 'logStream' | 'snapshot' | 'controlPort' | 'limits'
>

/** Options as they are read: with their defaults. */
export type Options = PetstoreOptions & Defaults & { limits: Limits }

type Defaults = { [K in Defaulted]: NonNullable<PetstoreOptions[K]> }

/** What the options are unless given. */
export const DEFAULTS: Defaults = {
  basePath: '/v1',
  pets: [],
  maxBody: 64 * 2 ** 10,
  maxStore: 256 * 2 ** 20,
  getPet: 'deprecated',
  page: true,
  journal: 1_000,
  log: 'off',
  port: 0,
  host: '127.0.0.1',
  maxConnections: 10_000,
  keepAlive: 75,
  controlHost: '127.0.0.1',
}

function isLogStream(value: unknown): value is LogStream {
  if (typeof value !== 'object' || value === null || !('write' in value) || !('on' in value)) return false
  return typeof value.write === 'function' && typeof value.on === 'function'
}

const HOST = text(/^[\w.:%-]+$/, 'a host name or an IP address')
const PORT = integer(0, 65_535)
const MAX_MILLISECONDS = 2 ** 31 - 1

/** What every option must be. */
export const OPTION_RULES: { readonly [K in keyof PetstoreOptions]-?: Rule<NonNullable<PetstoreOptions[K]>> } = {
  basePath: text(
    /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)+$/,
    'a path such as /v1 or /shop/v1: segments of A-Z a-z 0-9 - . _ ~, no slash at the end',
  ),
  apiKeys: {
    mustBe: `an array of one key or more, each ${KEY_MUST_BE}`,
    isShape: (value): value is readonly string[] =>
      Array.isArray(value) && Array.from(value).every((key) => typeof key === 'string'),
    isInRange: (keys) => keys.length > 0 && keys.every(isApiKey),
    isSecret: true,
  },
  pets: shape('an array of NewPet', (value): value is readonly NewPet[] => Array.isArray(value)),
  maxBody: integer(1, 256 * 2 ** 20),
  maxStore: integer(1, 1024 * 2 ** 30),
  getPet: oneOf(['deprecated', 'gone']),
  page: BOOLEAN,
  cors: {
    mustBe: 'an origin such as https://shop.example, without a path, or *',
    isShape: (value): value is string => typeof value === 'string',
    isInRange: (origin) => origin === '*' || (URL.canParse(origin) && new URL(origin).origin === origin),
  },
  journal: integer(0, 1_000_000),
  log: oneOf(['text', 'json', 'off']),
  logStream: shape('a stream to write to', isLogStream),
  port: PORT,
  host: HOST,
  snapshot: text(/./, 'the path of a file'),
  maxConnections: integer(1, 1_000_000),
  keepAlive: integer(1, 86_400),
  controlPort: PORT,
  controlHost: HOST,
  limits: shape(
    'an object of limits',
    (value): value is Partial<Limits> => typeof value === 'object' && value !== null,
  ),
}

const LIMIT_RULES: Rules = Object.fromEntries(Object.keys(LIMITS).map((name) => [name, integer(0, MAX_MILLISECONDS)]))

const NEED_A_SOCKET = [
  'port',
  'host',
  'snapshot',
  'maxConnections',
  'keepAlive',
  'controlPort',
  'controlHost',
  'limits',
]
const CREATE_RULES: Rules = Object.fromEntries(
  Object.entries(OPTION_RULES).filter(([name]) => !NEED_A_SOCKET.includes(name)),
)

/**
 * Checks options and fills in what is left out.
 *
 * @throws TypeError or RangeError that names the option, the value and what it must be.
 */
export function readOptions(given: PetstoreOptions, hasSocket: boolean): Options {
  checkMembers('options', given, hasSocket ? OPTION_RULES : CREATE_RULES)
  const { limits, pets, ...rest } = definedOf(given)
  return { ...DEFAULTS, ...rest, pets: readNewPets('pets', pets ?? []), limits: readLimits(limits ?? {}) }
}

function readLimits(given: Partial<Limits>): Limits {
  checkMembers('limits', given, LIMIT_RULES)
  const limits = { ...LIMITS, ...definedOf(given) }
  const { headersTimeout, requestTimeout } = limits
  if (headersTimeout <= requestTimeout || requestTimeout === 0) return limits
  throw new RangeError(`headersTimeout ${headersTimeout} must be at most requestTimeout, ${requestTimeout}`)
}

/** An object without the members that are undefined. */
function definedOf<T extends object>(object: T): Defined<T> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Defined<T>
}

type Defined<T> = { [K in keyof T]?: NonNullable<T[K]> }

/** Reads animals. @throws TypeError that names the first one that is wrong, and what is wrong with it. */
export function readNewPets(name: string, input: unknown): NewPet[] {
  const pets = validateNewPets(input)
  if (pets.ok) return pets.value
  throw new TypeError(`${name} must be an array of NewPet: ${describeIssues(pets.issues)}`)
}
