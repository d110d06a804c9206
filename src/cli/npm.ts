import { misuse } from '../rules.ts'
import { FLAGS } from './settings.ts'

/** Refuses what `npm start --port 9000` does: without a `--` in between, npm takes the flag. */
export function checkNpm(args: readonly string[], env: NodeJS.ProcessEnv): void {
  if (env['npm_lifecycle_event'] !== 'start') return
  const [rest] = args.filter((arg) => !arg.startsWith('-')) // npm takes the flag without its value
  for (const { name, value } of FLAGS) {
    const taken = env[`npm_config_${name.replaceAll('-', '_')}`] ?? ''
    if (taken === '' || args.some((arg) => arg.split('=')[0] === `--${name}`)) continue
    const text = taken === 'true' ? (rest ?? value) : taken
    const given = name.endsWith('-key') ? value : text // keys are secret
    const flag = value === '' ? `--${name}` : `--${name} ${given}`
    throw misuse(`npm took --${name} for itself: npm start -- ${flag}`)
  }
}
