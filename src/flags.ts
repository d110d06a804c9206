import { util } from './builtins.ts'
import { UsageError } from './values.ts'

/** A flag that a command line may hold. */
export interface Flag {
  /** With its two dashes. */
  flag: string
  /** The name of its value in messages; a switch has none. */
  value?: string
  /** The text that a switch stands for. */
  switch?: string
  /** Given again, it adds its value behind a comma; otherwise the last value counts. */
  repeats?: true
}

/**
 * Reads a command line.
 *
 * @returns The text that each given flag carries.
 * @throws UsageError for what is not a flag, an unknown flag, a missing value, and a value that a switch does not take.
 */
export function readFlags(args: readonly string[], known: readonly Flag[]): Map<string, string> {
  const types = known.map(
    ({ flag, value }) => [flag.slice(2), { type: value === undefined ? 'boolean' : 'string' }] as const,
  )
  const { tokens } = util.parseArgs({
    args: [...args],
    options: Object.fromEntries(types),
    strict: false,
    tokens: true,
  })
  const given = new Map<string, string>()
  for (const token of tokens) {
    if (token.kind !== 'option') throw new UsageError(`unexpected argument ${JSON.stringify(args[token.index])}`)
    const flag = known.find((one) => one.flag === token.rawName)
    if (flag === undefined)
      throw new UsageError(`unknown flag ${token.rawName}; did you mean ${nearest(token.rawName, known)}?`)
    // What stands behind a flag and is one itself is not its value, which an unset variable of the shell left out.
    const isMissing = !token.inlineValue && known.some((one) => one.flag === token.value)
    given.set(flag.flag, readText(flag, isMissing ? undefined : token.value, given.get(flag.flag)))
  }
  return given
}

function readText({ flag, value, switch: text = '', repeats }: Flag, given?: string, before?: string): string {
  if (value === undefined) {
    if (given !== undefined) throw new UsageError(`${flag} ${JSON.stringify(given)} must be without a value`)
    return text
  }
  if (given === undefined) throw new UsageError(`${flag} must be followed by its value: ${flag} ${value}`)
  return repeats && before !== undefined ? `${before},${given}` : given
}

function nearest(name: string, known: readonly Flag[]): string {
  const [flag = ''] = known.map((one) => one.flag).sort((a, b) => distance(name, a) - distance(name, b))
  return flag
}

/** How many characters must be put in, taken out or exchanged to make one text the other (Levenshtein). */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (const [i, character] of [...from].entries()) {
    const next = [i + 1]
    for (const [j, other] of [...to].entries()) {
      const exchanged = (row[j] ?? 0) + (character === other ? 0 : 1)
      next.push(Math.min(exchanged, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row.at(-1) ?? 0
}
