/** A function that tells the time as text, and writes it only when a new period of so many milliseconds has begun. */
export function clock(period: number, write: (time: Date) => string): () => string {
  let last = Number.NaN
  let text = ''
  return () => {
    const now = Math.floor(Date.now() / period)
    if (now !== last) {
      last = now
      text = write(new Date(now * period))
    }
    return text
  }
}
