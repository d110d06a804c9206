import { isApiKey, Keyring, tokenOf } from '../http/bearer.ts'
import { countingReport, type Log } from '../http/log.ts'
import { check, isNumber, isString, misuse, type Options, rule } from '../options.ts'
import type { Budget, LocalStore } from '../pets/store.ts'
import type { Awaitable, Store } from '../types.ts'
import type { Faults } from './faults.ts'
import type { RequestLog, SharedBudget } from './requests.ts'

/** The part of a Core that stores need: what a key has to itself, or else all keys together. */
export interface Tenant {
  readonly options: Options
  readonly keyring: Keyring
  readonly log: Log
  readonly context: { readonly store: Store & Partial<LocalStore>; isAnyKeyValid: boolean }
  readonly faults: Faults
  readonly requestLog: RequestLog
}

/** Hangs up on delayed requests, rejects every wait, and closes the store. */
export function closeTenant({ context, faults, requestLog }: Tenant): Awaitable<void> {
  faults.clear()
  requestLog.close()
  return context.store.close()
}

/** Bytes counted for a tenant beyond its pets. */
const TENANT_OVERHEAD = 16 * 2 ** 10

type Open<T> = (keyring: Keyring, ofPets: Budget, ofRequests: SharedBudget) => T

/** A tenant for each key, opened on first use; where there is no room, in place of others. */
export class Stores<T extends Tenant> {
  readonly #shared: T
  readonly #open: Open<T>
  readonly #newBytes: number // that a new tenant takes
  readonly #budget: Budget // of all pets, and what else a tenant takes
  readonly #requests: SharedBudget // of all recorded requests
  readonly #warn: (what: string) => void
  readonly #tenants = new Map<string, T>() // by key, the longest unused first
  #opened = 0

  /** @param shared Has the keys, and the pets of a new tenant, for which there must be room. */
  constructor(shared: T, open: Open<T>) {
    const { maxStore } = shared.options
    const newBytes = TENANT_OVERHEAD + (shared.context.store.bytes ?? 0)
    const mustBe = `at least ${newBytes}, what the store of one key takes`
    const room = rule(mustBe, isNumber, (bytes) => bytes >= newBytes)
    check('maxStore', maxStore, room)
    this.#shared = shared
    this.#open = open
    this.#newBytes = newBytes
    this.#budget = { maxBytes: maxStore, bytes: 0 }
    this.#requests = { maxBytes: maxStore / 8, bytes: 0, makeRoom: () => this.#dropRequests() }
    this.#warn = countingReport(shared.log, 'warn')
  }

  get size(): number {
    return this.#tenants.size
  }

  get bytes(): number {
    return this.#budget.bytes
  }

  /** Throws a TypeError if a key is not valid. */
  check(key: string): void {
    if (!isString(key) || !this.#isValid(key)) throw misuse('key must be a valid API key')
  }

  #isValid(key: string): boolean {
    const { context, keyring } = this.#shared
    return context.isAnyKeyValid ? isApiKey(key) : keyring.indexOf(key) !== undefined
  }

  /** The valid key in an `Authorization` header. */
  keyIn(authorization?: string): string | undefined {
    const key = tokenOf(authorization)
    return this.#isValid(key) ? key : undefined
  }

  /** The tenant of a key. Throws a TypeError if it is not valid. */
  of(key: string): T {
    const tenant = this.#tenants.get(key) ?? this.#openFor(key)
    this.#tenants.delete(key)
    this.#tenants.set(key, tenant)
    return tenant
  }

  /** Called when the keyring has other keys: from now on, no others are valid. */
  onKeysReplaced(): void {
    const { context, keyring: all } = this.#shared
    context.isAnyKeyValid = false
    for (const [key, { keyring }] of this.#tenants) {
      const index = all.indexOf(key)
      if (index === undefined) this.close(key)
      else keyring.replace([key], index)
    }
  }

  /** Closes the tenant of a key, if it has one. The next use of the key opens another. */
  close(key: string): void {
    const tenant = this.#tenants.get(key)
    if (tenant === undefined) return
    this.#tenants.delete(key)
    void closeTenant(tenant)
    tenant.requestLog.clear()
    this.#budget.bytes -= TENANT_OVERHEAD
  }

  closeAll(): void {
    for (const tenant of this.#tenants.values()) void closeTenant(tenant)
  }

  /** Drops recorded requests, those of the longest unused key first. */
  #dropRequests(): void {
    for (const { requestLog } of this.#tenants.values()) requestLog.makeRoom()
  }

  #openFor(key: string): T {
    this.check(key)
    for (const longestUnused of this.#tenants.keys()) {
      if (this.#budget.bytes + this.#newBytes <= this.#budget.maxBytes) break
      this.close(longestUnused)
      this.#warn('stores that were closed, the longest unused first, to make room for others')
    }
    const { context, keyring: all } = this.#shared
    // Where any key is valid, the list has no place for it: the order of opening stands in.
    const index = context.isAnyKeyValid ? this.#opened : all.indexOf(key)
    this.#opened++
    this.#budget.bytes += TENANT_OVERHEAD
    return this.#open(new Keyring([key], index, all), this.#budget, this.#requests)
  }
}
