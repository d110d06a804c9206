// The tests' own processes.
import { test } from 'node:test'
import { Running } from './process.ts'

test('a server ends with the process of its test, even if that is killed', async () => {
  const idle = 'setInterval(() => {}, 1_000); console.log("started")'
  const runner = `
    import { Running } from './test/process.ts'
    new Running([process.execPath, '-e', ${JSON.stringify(idle)}], { stdio: 'inherit' })`
  const flags = ['--import', 'tsx', '--input-type=module', '--eval', runner]
  const running = new Running([process.execPath, ...flags])
  await running.stdout.until(/started/)
  running.process.kill('SIGKILL')
  await running.exited // its standard output ends with the last process that has it
})
