// In a page of another origin: the status of each request, as its script sees it.
globalThis.statusesOf = async (url, headers) => {
  const statusOf = async (path, method) => {
    const init = { method, headers, credentials: 'include' }
    return (await fetch(url + path, init)).status
  }
  return [
    await statusOf('/pets', 'GET'),
    await statusOf('/cats', 'GET'),
    await statusOf('/pets', 'PUT'),
    await statusOf('/pets?limit=1', 'GET'),
  ]
}
