import { isApiKey, Keyring, tokenOf } from '../http/bearer.ts'
import { misuse, withCode } from '../options.ts'
import type { Budget } from '../pets/store.ts'
import type { Awaitable, Store } from '../types.ts'
import type { Faults } from './faults.ts'
import type { RequestLog } from './requests.ts'

/** What each key has to itself where it has a store of its own, and else all keys together. */
export interface Tenant {
  readonly keyring: Keyring
  readonly context: { readonly store: Store }
  readonly faults: Faults
  readonly requestLog: RequestLog
}

/** Hangs up on delayed requests, rejects every wait, and closes the store. */
export function closeTenant({ context, faults, requestLog }: Tenant): Awaitable<void> {
  faults.clear()
  requestLog.close()
  return context.store.close()
}

interface StoresOptions<T> {
  readonly keyring: Keyring // of the configured keys
  readonly isAnyKeyValid: boolean // all that have the right form
  readonly maxBytes: number
  readonly initialBytes: number // that the pets of a new tenant take
  readonly open: (keyring: Keyring, budget: Budget) => T
  readonly warn: (what: string) => void
}

/** Bytes counted for a tenant beyond its pets and recorded requests. */
const TENANT_OVERHEAD = 16 * 2 ** 10

/** A tenant for each key, opened on first use; where there is no room, in place of others. */
export class Stores<T extends Tenant> {
  readonly #options: StoresOptions<T>
  readonly #budget: Budget
  readonly #tenants = new Map<string, T>() // by key, the longest unused first
  #opened = 0
  isAnyKeyValid: boolean

  /** @throws RangeError if there is no room for a single one. */
  constructor(options: StoresOptions<T>) {
    const { isAnyKeyValid, maxBytes, initialBytes } = options
    const minBytes = TENANT_OVERHEAD + initialBytes
    if (minBytes > maxBytes) {
      const message = `maxStore must be at least ${minBytes}, what the store of one key takes`
      throw withCode('invalid_option', new RangeError(message))
    }
    this.#options = options
    this.#budget = { maxBytes, bytes: 0 }
    this.isAnyKeyValid = isAnyKeyValid
  }

  get size(): number {
    return this.#tenants.size
  }

  get bytes(): number {
    return this.#budget.bytes
  }

  isValid(key: string): boolean {
    if (this.isAnyKeyValid) return isApiKey(key)
    return this.#options.keyring.indexOf(key) !== undefined
  }

  /** The valid key in an `Authorization` header. */
  keyIn(authorization?: string): string | undefined {
    const key = tokenOf(authorization)
    return this.isValid(key) ? key : undefined
  }

  /** The tenant of a valid key. */
  of(key: string): T {
    const tenant = this.#tenants.get(key) ?? this.#open(key)
    this.#tenants.delete(key)
    this.#tenants.set(key, tenant)
    return tenant
  }

  /** Called when the keyring has other keys: from now on, no others are valid. */
  onKeysReplaced(): void {
    this.isAnyKeyValid = false
    for (const [key, { keyring }] of this.#tenants) {
      const index = this.#options.keyring.indexOf(key)
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

  /** @throws TypeError if the key is not valid. */
  #open(key: string): T {
    if (!this.isValid(key)) throw misuse('key must be a valid API key')
    const { open, keyring, initialBytes, maxBytes, warn } = this.#options
    for (const longestUnused of this.#tenants.keys()) {
      if (this.#budget.bytes + TENANT_OVERHEAD + initialBytes <= maxBytes) break
      this.close(longestUnused)
      warn(
        'stores that were closed, the longest unused first, to make room for those of other keys',
      )
    }
    this.#budget.bytes += TENANT_OVERHEAD
    // Where any key is valid, they are numbered as they open.
    const index = this.isAnyKeyValid ? this.#opened : keyring.indexOf(key)
    this.#opened++
    return open(new Keyring([key], index), this.#budget)
  }
}
