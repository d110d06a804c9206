/** Caches a formatted timestamp for `period` milliseconds. */
export function cachedTimestamp(period: number, format: (time: Date) => string): () => string {
  let last = -1
  let text = ''
  return () => {
    const tick = Math.floor(Date.now() / period)
    if (tick !== last) {
      last = tick
      text = format(new Date(tick * period))
    }
    return text
  }
}
