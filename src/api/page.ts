import type { Reply } from '../http/reply.ts'
import type { Context } from './operations.ts'

/** GET /: what this address is, for people; the `deprecation` link of getPet leads here. */
export function page({ basePath }: Context): () => Reply {
  const body = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Pet store</title>
<h1>Pet store</h1>
<p>An HTTP interface to list, add and fetch animals. Every call needs <code>Authorization: Bearer &lt;API_KEY&gt;</code>.</p>
<dl>
<dt><code>GET ${basePath}/pets</code></dt>
<dd>lists animals; <code>limit</code>, <code>status</code> and <code>after</code> choose which.</dd>
<dt><code>POST ${basePath}/pets</code></dt>
<dd>adds an animal: <code>{"name":"Rex","categoryId":1,"status":"available"}</code>.</dd>
<dt><code>GET ${basePath}/pets/{petId}</code> (deprecated)</dt>
<dd>fetches one animal. It is removed on 5 December 2030: use <code>GET ${basePath}/pets</code> with the
<code>status</code> filter.</dd>
</dl>
</html>
`
  return () => ({ status: 200, type: 'text/html; charset=utf-8', body })
}
