/** Caches a formatted timestamp for `period` milliseconds. */
export function clock(period: number, format: (time: Date) => string): () => string {
  let last = -1
  let text = ''
  return () => {
    const now = Math.floor(Date.now() / period)
    if (now !== last) {
      last = now
      text = format(new Date(now * period))
    }
    return text
  }
}
