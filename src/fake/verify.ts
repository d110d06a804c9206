import { inspect } from 'node:util'
import { withCode } from '../rules.ts'
import type { PendingFault, RecordedRequest } from '../types.ts'

/** Throws an error that lists each fault still to come, and each request with violations. */
export function verify(
  pendingFaults: readonly PendingFault[],
  requests: readonly RecordedRequest[],
): void {
  const unmet = pendingFaults.filter(({ times, hits }) => times !== 'always' || hits === 0)
  const wrong = requests.filter(({ violations }) => violations.length > 0)
  if (unmet.length + wrong.length === 0) return
  const found: string[] = []
  if (unmet.length > 0) found.push(`${counted(unmet.length, 'fault')} still to come`)
  if (wrong.length > 0) found.push(`${counted(wrong.length, 'request')} with violations`)
  const lines = [...unmet.map(describeFault), ...wrong.map(describeRequest)]
  const message = `verify found ${found.join(' and ')}:\n  ${lines.join('\n  ')}`
  throw withCode('verify_failed', new Error(message))
}

function describeFault({ hits, ...fault }: PendingFault): string {
  const shown = inspect(fault, { breakLength: Infinity, compact: true })
  if (hits === 0) return `no request met the fault ${shown}`
  return `${counted(hits, 'request')} met the fault, which waits for more: ${shown}`
}

function describeRequest({ method, path, query, violations }: RecordedRequest): string {
  const target = query === '' ? path : `${path}?${query}`
  return `${method} ${target}: ${violations.join('; ')}`
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}
