/** A function that writes a time, in milliseconds since 1970; anew only when another `period`, of so many milliseconds, has begun. */
export function timeWriter(period: number, write: (time: Date) => string): (time: number) => string {
  let last = Number.NaN
  let text = ''
  return (time) => {
    const count = Math.floor(time / period)
    if (count !== last) {
      last = count
      text = write(new Date(count * period))
    }
    return text
  }
}
