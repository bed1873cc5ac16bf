// The TypeScript SDK as an agent: `node sdk.mjs v1|v2 legacy|auto URL NAME PROMPT WAIT_S` prints one JSON object.
// v1 is @modelcontextprotocol/sdk, which knows the handshake alone; v2 is @modelcontextprotocol/client.

const [line, mode, url, name, prompt, wait_s] = process.argv.slice(2);
const info = { name: "hivesub-tests", version: "1" };

async function connected() {
  if (line === "v1") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client(info);
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client(info, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

const client = await connected();
const told = { tools: (await client.listTools()).tools.map((tool) => tool.name) };
for (const [tool, args] of [["start", { name, prompt }], ["status", { name, wait_s: Number(wait_s) }], ["interrupt", { name }]]) {
  // No `_meta` asks for the record: structuredContent has to be undefined, and JSON leaves it out.
  const { isError, content, structuredContent } = await client.callTool({ name: tool, arguments: args });
  told[tool] = { isError: isError ?? false, text: content[0].text, structuredContent };
}
told.protocol = client.getNegotiatedProtocolVersion?.() ?? client.transport?.protocolVersion ?? null;
await client.close();
console.log(JSON.stringify(told));
