import { isApiKey, KEY_MUST_BE, Keyring, tokenOf } from '../http/bearer.ts'
import type { Log } from '../http/log.ts'
import { check, isNumber, isString, misuse, type Options, rule } from '../options.ts'
import type { Budget, LocalStore } from '../pets/store.ts'
import type { Awaitable, Store } from '../types.ts'
import type { Faults } from './faults.ts'
import type { RequestLog, SharedBudget } from './requests.ts'

/** The members of a Core that Stores uses. Each key has a Core, and one is shared by all. */
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
const CLOSED_FOR_ROOM = 'stores that were closed, the longest unused first, to make room for others'

type Open<T> = (keyring: Keyring, petBudget: Budget, requestBudget: SharedBudget) => T

/** A tenant for each key, opened on first use; where there is no room, in place of others. */
export class Stores<T extends Tenant> {
  readonly #shared: T
  readonly #open: Open<T>
  readonly #newBytes: number // that a new tenant takes
  readonly #petBudget: Budget // of all pets, and what else a tenant takes
  readonly #requestBudget: SharedBudget // of all recorded requests
  readonly #tenants = new Map<string, T>() // by key, the longest unused first
  #opened = 0
  #isClosed = false

  /** @param shared Has the keys, and the pets of a new tenant, for which there must be room. */
  constructor(shared: T, open: Open<T>) {
    const { maxStore } = shared.options
    const newBytes = TENANT_OVERHEAD + (shared.context.store.bytes ?? 0)
    const mustBe = `at least ${newBytes}, what the store of a key takes (--max-store)`
    const room = rule(mustBe, isNumber, (bytes) => bytes >= newBytes)
    check('maxStore', maxStore, room)
    this.#shared = shared
    this.#open = open
    this.#newBytes = newBytes
    this.#petBudget = {
      maxBytes: maxStore,
      bytes: 0,
      makeRoom: (bytes, store) => this.#makeRoom(bytes, store),
    }
    this.#requestBudget = { maxBytes: maxStore / 8, bytes: 0, makeRoom: () => this.#dropRequests() }
  }

  /** How many pets there are. */
  get size(): number {
    let size = 0
    for (const { context } of this.#tenants.values()) size += context.store.size ?? 0
    return size
  }

  get bytes(): number {
    return this.#petBudget.bytes
  }

  /** Throws a TypeError if a key is not valid. */
  check(key: string): void {
    if (isString(key) && this.#isValid(key)) return
    const { isAnyKeyValid } = this.#shared.context
    throw misuse(`key must be ${isAnyKeyValid ? KEY_MUST_BE : 'one of the valid API keys'}`)
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

  /** The tenant of a key. Throws a TypeError if it is not valid. Once all are closed, so is it. */
  of(key: string): T {
    const tenant = this.#tenants.get(key) ?? (this.#isClosed ? this.#shared : this.#openFor(key))
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
    this.#petBudget.bytes -= TENANT_OVERHEAD
  }

  closeAll(): void {
    this.#isClosed = true
    for (const tenant of this.#tenants.values()) void closeTenant(tenant)
  }

  /** Drops recorded requests, those of the longest unused key first. */
  #dropRequests(): void {
    for (const { requestLog } of this.#tenants.values()) requestLog.makeRoom()
  }

  /** Closes the longest unused tenants, but for that of a store, until there are free bytes. */
  #makeRoom(bytes: number, kept?: LocalStore): void {
    for (const [key, { context }] of this.#tenants) {
      if (this.#petBudget.bytes + bytes <= this.#petBudget.maxBytes) return
      if (context.store === kept) continue
      this.close(key)
      this.#shared.log.count('warn', CLOSED_FOR_ROOM)
    }
  }

  #openFor(key: string): T {
    this.check(key)
    this.#makeRoom(this.#newBytes)
    const { context, keyring: all } = this.#shared
    // Where any key is valid, the list has no place for it: the order of opening stands in.
    const index = context.isAnyKeyValid ? this.#opened : all.indexOf(key)
    this.#opened++
    this.#petBudget.bytes += TENANT_OVERHEAD
    return this.#open(new Keyring([key], index, all), this.#petBudget, this.#requestBudget)
  }
}
