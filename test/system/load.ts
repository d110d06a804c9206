// Clients that keep a server busy while something happens to it.
import { EventEmitter, once } from 'node:events'
import { Agent } from 'node:http'

/** Sends a numbered request; rejects if its response is not as it should be. */
export type Ask = (agent: Agent, count: number) => Promise<void>

/** Keeps clients busy, each on its own connection, while `work` waits for numbers of responses. */
export async function loadDuring(
  clients: number,
  ask: Ask,
  work: (answered: (more: number) => Promise<void>) => Promise<void>,
): Promise<{ count: number; failures: string[] }> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  const progress = new EventEmitter()
  const failures: string[] = []
  let isOver = false
  let begun = 0
  let done = 0
  const client = async () => {
    while (!isOver) {
      const count = begun++
      await ask(agent, count).catch((error) => failures.push(`${count}: ${error}`))
      done++
      progress.emit('done')
    }
  }
  const busy = Array.from({ length: clients }, client)
  const answered = async (more: number) => {
    const end = done + more
    while (done < end) await once(progress, 'done')
  }
  await work(answered).finally(() => (isOver = true))
  await Promise.all(busy)
  agent.destroy()
  return { count: done, failures }
}
