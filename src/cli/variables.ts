import { hintFor } from '../rules.ts'

const LINK = /^(?:tcp|udp|sctp):\/\//

/**
 * The variables that Kubernetes makes for a Service. Of `petstore`, one is
 * PETSTORE_PORT=tcp://10.0.0.1:80; those of `petstore-control` would even be a setting.
 */
export function serviceLinksIn(env: NodeJS.ProcessEnv): string[] {
  const names = namesIn(env)
  const ports = names.filter((name) => name.endsWith('_PORT') && LINK.test(env[name] ?? ''))
  const services = ports.map((name) => name.slice(0, -'_PORT'.length))
  const isLink = (name: string) =>
    services.some((one) => name.startsWith(`${one}_PORT`) || name.startsWith(`${one}_SERVICE_`))
  return names.filter(isLink)
}

/** What to warn of: variables that look like settings but are not, with the one that was meant. */
export function strangeVariables(env: NodeJS.ProcessEnv, known: readonly string[]): string[] {
  const links = serviceLinksIn(env)
  const unknown = namesIn(env).filter((name) => !known.includes(name) && !links.includes(name))
  const warnings = unknown.map(
    (name) => `unknown variable ${name}${hintFor(name, known)}; see --help`,
  )
  if (links.length > 0)
    warnings.push(`no settings, because Kubernetes made them for a Service: ${links.join(', ')}`)
  return warnings
}

function namesIn(env: NodeJS.ProcessEnv): string[] {
  return Object.keys(env).filter((name) => name.startsWith('PETSTORE_'))
}
