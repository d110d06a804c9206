/** What an error says, without the name of its class. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
