/** The version of the package, which is that of the interface too. */
export const VERSION = '1.0.0'
