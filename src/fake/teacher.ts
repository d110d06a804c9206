import { CODES, errorReply } from '../api/errors.ts'
import { isRecord, messageOf } from '../guards.ts'
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
 * their replies by number. A failure in one store does not undo the others.
 */
export async function runInStores<P>(
  stores: unknown,
  open: readonly OpenStore<P>[],
  run: (petstore: P) => Promise<Reply>,
): Promise<Reply> {
  check('stores', stores, STORES)
  if (stores === 'all') return runInAll(open, run)
  const store = open.find(({ number }) => stores === number)
  if (!store) return NO_STORE
  const { headers: _, ...reply } = await run(store.petstore) // no Location: the id is the store's
  return reply
}

async function runInAll<P>(
  open: readonly OpenStore<P>[],
  run: (petstore: P) => Promise<Reply>,
): Promise<Reply> {
  const outcomes = await Promise.allSettled(open.map(({ petstore }) => run(petstore)))
  const replies: Reply[] = []
  const failures: Failure[] = []
  for (const [at, { number }] of open.entries()) {
    const outcome = outcomes[at]
    if (outcome?.status === 'fulfilled') replies.push(outcome.value)
    else failures.push({ number, error: outcome?.reason })
  }
  if (failures.length > 0) throw joined(failures, open.length)
  const [first] = replies
  if (!first) return NONE_OPEN
  const refused = replies.find(({ status }) => status >= 400)
  if (refused) return refused
  const { status, body } = first
  if (body === undefined) return first
  const members = open.map(({ number }, at) => `"${number}":${replies[at]?.body}`)
  return { status, body: `{${members.join(',\n')}}` }
}

interface Failure {
  readonly number: number // of the store
  readonly error: unknown
}

/** The first error. Its message has those of all, unless each store has failed for one reason. */
function joined(failures: readonly Failure[], stores: number): unknown {
  const [first] = failures
  const reasons = new Set(failures.map(({ error }) => messageOf(error)))
  if (reasons.size === 1 && failures.length === stores) return first?.error
  const lines = failures.map(({ number, error }) => `store ${number}: ${messageOf(error)}`)
  if (first?.error instanceof Error) first.error.message = lines.join('\n')
  return first?.error
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
