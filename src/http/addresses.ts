import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os'

export function urlOf(address: string, port: number): string {
  return `http://${hostOf(address)}:${port}`
}

function hostOf(address: string): string {
  return address.includes(':') ? `[${address}]` : address
}

/** The address by which this machine reaches a server that is bound to an address. */
export function reachableAddress(bound: string): string {
  if (bound === '0.0.0.0') return '127.0.0.1'
  if (bound !== '::') return bound
  // IPv6 may be off, and a machine with IPv6 may have no IPv4.
  return localAddresses().some(({ address }) => address === '::1') ? '::1' : '127.0.0.1'
}

/** The addresses of this machine. */
export function localAddresses(): NetworkInterfaceInfo[] {
  return Object.values(networkInterfaces()).flatMap((some) => some ?? [])
}

/** The URL by which this machine reaches a server that is bound to a URL. */
export function reachableUrl(bound: string): string {
  return bound.replace(/(?<=^http:\/\/)(?:0\.0\.0\.0|\[::\])(?=:)/, (host) =>
    hostOf(reachableAddress(host === '[::]' ? '::' : host)),
  )
}

/** Whether only this machine reaches a server that is bound to a URL. */
export function isLoopback(bound: string): boolean {
  return /^http:\/\/(?:\[::ffff:)?(?:127\.|\[::1\])/.test(bound)
}
