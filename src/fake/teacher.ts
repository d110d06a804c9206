import { CODES, errorReply } from '../api/errors.ts'
import { isRecord } from '../guards.ts'
import type { Reply } from '../http/respond.ts'
import { check, integer, misuse, orElse, secret } from '../rules.ts'
import { type Control, CONTROLS } from './controls.ts'

/** A store that is open: its petstore, and what GET /stores shows. */
export interface OpenStore<P> {
  readonly petstore: P
  /** The `key` of its requests, and of the lines of the log. */
  readonly number: number
  /** What its key begins with, where any key is valid; null with configured keys. */
  readonly keyStart: string | null
  readonly pets: number | undefined
  /** How many are recorded. */
  readonly requests: number
  /** The status of the latest request; null without one. */
  readonly lastStatus: number | null
  /** When that request ended; null without one. */
  readonly since: string | null
}

export const ONLY_TEACHER: Reply = errorReply(
  403,
  CODES[403],
  'GET /stores and "stores" need the key of the teacher, set by --teacher-key',
)
const NO_STORE = errorReply(404, CODES[404], 'No open store has this number: see GET /stores')
const NONE_OPEN = errorReply(
  404,
  CODES[404],
  'No store is open: a key opens its own when it is used',
)

const NUMBER = integer(0, 1_000_000, ', the number of a store')
const STORES = secret(orElse(NUMBER, 'all'))

/** Takes `stores` out of the body of a fault or a reset. */
export function splitStores(control: Control, body: unknown): { stores?: unknown; input: unknown } {
  if (!isRecord(body) || !Object.hasOwn(body, 'stores')) return { input: body }
  const { stores, ...rest } = body
  if (control === CONTROLS.inject) return { stores, input: rest }
  if (control !== CONTROLS.reset) return { input: body }
  const { pets, ...others } = rest
  if (Object.keys(others).length > 0) throw misuse('body must have no members but stores and pets')
  return { stores, input: pets }
}

/** One store a line. */
export function listStores(open: readonly OpenStore<unknown>[]): Reply {
  const lines = open.map(({ petstore: _, ...shown }) => JSON.stringify(shown))
  return { status: 200, body: `[${lines.join(',\n')}]` }
}

/**
 * Runs a control in the stores that `stores` names: the reply of one or, for all, an object of
 * their replies by number. A failure in one store leaves the others as they have become.
 */
export async function runInStores<P>(
  stores: unknown,
  open: readonly OpenStore<P>[],
  run: (petstore: P) => Promise<Reply>,
): Promise<Reply> {
  check('stores', stores, STORES)
  const chosen = open.filter(({ number }) => stores === 'all' || stores === number)
  const replies = await Promise.all(chosen.map(({ petstore }) => run(petstore)))
  const [first] = replies
  if (!first) return stores === 'all' ? NONE_OPEN : NO_STORE
  const failed = replies.find(({ status }) => status >= 400)
  if (failed) return failed
  const { status, body } = first
  if (body === undefined) return { status }
  if (stores !== 'all') return { status, body } // no Location: the id is the store's
  const members = chosen.map(({ number }, at) => `"${number}":${replies[at]?.body}`)
  return { status, body: `{${members.join(',\n')}}` }
}

/** As much of each key as tells it from the others: 4 characters or more, and never all. */
export function startsOf(keys: readonly string[]): Map<string, string> {
  const sorted = [...keys].sort()
  const starts = new Map<string, string>()
  for (const [at, key] of sorted.entries()) {
    const neighbours = [sorted[at - 1] ?? '', sorted[at + 1] ?? '']
    const alike = neighbours.map((other) => commonLength(key, other))
    const length = Math.max(4, ...alike.map((common) => common + 1))
    starts.set(key, key.slice(0, Math.min(length, key.length - 1)))
  }
  return starts
}

function commonLength(one: string, other: string): number {
  let length = 0
  while (length < one.length && one[length] === other[length]) length++
  return length
}
