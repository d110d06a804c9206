/** Throws the reason of a signal that is aborted. */
export function throwIfAborted(signal: AbortSignal | null | undefined): void {
  if (signal?.aborted) throw reasonOf(signal)
}

/** The reason of a signal; one of an older library has none. */
function reasonOf({ reason }: AbortSignal): unknown {
  const abortError = () =>
    Object.assign(new Error('This operation was aborted'), { name: 'AbortError' })
  return reason ?? abortError()
}

// Keeps what is in flight alive: a signal no longer follows the caller's once its Request is
// garbage-collected.
const inFlight = new Map<Abort, unknown>()

/** Follows a signal, which may be a foreign one such as jsdom's, until it is told to forget it. */
export class Abort {
  readonly happened: Promise<never>
  readonly #signal: AbortSignal | null | undefined
  #onAbort = (): void => {}

  /** @param owner What has the signal, such as a Request. */
  constructor(signal: AbortSignal | null | undefined, owner: unknown) {
    this.#signal = signal
    this.happened = new Promise((_, reject) => {
      this.#onAbort = () => reject(signal && reasonOf(signal))
    })
    this.happened.catch(() => {}) // nobody may be waiting
    signal?.addEventListener('abort', this.#onAbort)
    inFlight.set(this, owner)
  }

  throwIfHappened(): void {
    throwIfAborted(this.#signal)
  }

  /** Leaves no listener behind: a thousand requests may share a signal. */
  forget(): void {
    this.#signal?.removeEventListener('abort', this.#onAbort)
    inFlight.delete(this)
  }
}
