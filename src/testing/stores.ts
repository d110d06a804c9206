import { KEY_MUST_BE, type Keyring } from '../http/bearer.ts'
import type { Service } from '../http/dispatch.ts'
import type { Log } from '../http/log.ts'
import { redactor } from '../http/redact.ts'
import { check, isNumber, isString, misuse, type Options, rule } from '../options.ts'
import type { Budget, LocalStore } from '../pets/store.ts'
import type { Awaitable, GetPetState, Store } from '../types.ts'
import type { Faults } from './faults.ts'
import type { RequestLog } from './requests.ts'

/** What a petstore has once, however many stores it has. */
export interface Shared {
  readonly options: Options
  readonly keyring: Keyring
  readonly log: Log
}

/** A store and what belongs to it: one for each key, or one for a whole petstore. */
export interface Tenant {
  readonly context: {
    readonly store: Store & Partial<LocalStore>
    getPetState: GetPetState
    isDraining: boolean
  }
  readonly faults: Faults
  readonly requestLog: RequestLog
  readonly service: Service
}

/** What a tenant is opened with. */
export interface TenantOptions {
  readonly redact: (text: string) => string
  readonly place?: number // of its key in the order of opening
  readonly requestBudget?: Budget // of the recorded requests of all tenants
}

/** Ends every delay, rejects every wait, and closes the store. */
export function closeTenant({ context, faults, requestLog }: Tenant): Awaitable<void> {
  faults.clear()
  requestLog.close()
  return context.store.close()
}

/** Bytes counted for a tenant beyond its pets. */
const TENANT_OVERHEAD = 16 * 2 ** 10
const CLOSED_FOR_ROOM = 'stores that were closed, the longest unused first, to make room for others'

/** A tenant for each key, opened on first use; where there is no room, in place of others. */
export class Stores implements Budget {
  readonly maxBytes: number
  bytes = 0 // of all pets, and what else a tenant takes
  readonly #shared: Shared
  readonly #open: (options: TenantOptions) => Tenant
  readonly #newBytes: number // that a new tenant takes
  readonly #requestBudget: Budget
  readonly #tenants = new Map<string, Tenant>() // by key, the longest unused first
  #opened = 0
  #isClosed = false

  /** @param initialBytes Of the pets of a new tenant, for which there must be room. */
  constructor(shared: Shared, initialBytes: number, open: (options: TenantOptions) => Tenant) {
    const { maxStore } = shared.options
    this.maxBytes = maxStore
    const newBytes = TENANT_OVERHEAD + initialBytes
    const mustBe = `at least ${newBytes}, what the store of a key takes (--max-store)`
    const room = rule(mustBe, isNumber, (bytes) => bytes >= newBytes)
    check('maxStore', maxStore, room)
    this.#shared = shared
    this.#open = open
    this.#newBytes = newBytes
    // Drops requests of the longest unused key first.
    const makeRoom = () => {
      for (const { requestLog } of this.#tenants.values()) requestLog.dropOldest()
    }
    this.#requestBudget = { maxBytes: maxStore / 8, bytes: 0, makeRoom }
  }

  /** How many pets there are. */
  get size(): number {
    let size = 0
    for (const { context } of this.#tenants.values()) size += context.store.size ?? 0
    return size
  }

  /** Throws a TypeError if a key is not valid. */
  check(key: string): void {
    const { keyring } = this.#shared
    if (isString(key) && keyring.isValid(key)) return
    throw misuse(`key must be ${keyring.isAnyKeyValid ? KEY_MUST_BE : 'one of the valid API keys'}`)
  }

  /** The tenant of a key. Throws a TypeError if it is not valid. After closeAll() it is closed. */
  of(key: string): Tenant {
    const tenant = this.#tenants.get(key) ?? this.#openFor(key)
    this.#tenants.delete(key)
    this.#tenants.set(key, tenant)
    return tenant
  }

  /** Called when the keyring has other keys. */
  onKeysReplaced(): void {
    for (const key of this.#tenants.keys()) {
      if (!this.#shared.keyring.isValid(key)) this.close(key)
    }
  }

  /** Closes the tenant of a key, if one is open, and returns it. The next use opens another. */
  close(key: string): Tenant | undefined {
    const tenant = this.#tenants.get(key)
    if (tenant === undefined) return undefined
    this.#tenants.delete(key)
    void closeTenant(tenant)
    tenant.requestLog.clear()
    this.bytes -= TENANT_OVERHEAD
    return tenant
  }

  closeAll(): void {
    this.#isClosed = true
    for (const tenant of this.#tenants.values()) void closeTenant(tenant)
  }

  /** Closes the longest unused tenants, except that of `kept`, until this many bytes are free. */
  makeRoom(bytes: number, kept?: LocalStore): void {
    for (const [key, { context }] of this.#tenants) {
      if (this.bytes + bytes <= this.maxBytes) return
      if (context.store === kept) continue
      this.close(key)
      this.#shared.log.count('warn', CLOSED_FOR_ROOM)
    }
  }

  #openFor(key: string): Tenant {
    if (!this.#isClosed) this.check(key)
    this.makeRoom(this.#newBytes)
    // Where any key is valid, the keyring does not list it; nor once the keys are replaced.
    const redactOwn = redactor([key])
    const tenant = this.#open({
      redact: (text) => redactOwn(this.#shared.keyring.redact(text)),
      place: this.#opened,
      requestBudget: this.#requestBudget,
    })
    this.#opened++
    this.bytes += TENANT_OVERHEAD
    if (this.#isClosed) void closeTenant(tenant)
    return tenant
  }
}
