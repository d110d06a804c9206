/** What an error says, without the name of its class; of an error of many, such as of all addresses of a host, what each says. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}
