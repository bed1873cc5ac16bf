// A peer: the same tools and the same answer from the TypeScript SDK's low-level server on Node.
// node peer.mjs PORT FILE; run where node_modules holds @modelcontextprotocol/server and @modelcontextprotocol/node.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';

const [port, file] = process.argv.slice(2);
const told = JSON.parse(readFileSync(file, 'utf8'));
const handler = toNodeHandler(
    createMcpHandler(() => {
        const server = new Server({ name: 'peer', version: '0' }, { capabilities: { tools: {} } });
        server.setRequestHandler('tools/list', () => ({ tools: told.tools }));
        server.setRequestHandler('tools/call', () => ({
            content: told.result.content,
        }));
        return server;
    })
);
const validHost = localhostHostValidation();
const validOrigin = localhostOriginValidation();

createServer((request, response) => {
    if (request.url === '/healthz') {
        response.end('ok\n');
    } else if (validHost(request, response) && validOrigin(request, response)) {
        handler(request, response);
    }
}).listen(Number(port), '127.0.0.1');
