import { FileStore } from '@tus/file-store';
import { Server } from '@tus/server';

/** @tus/server set up as in its documentation, over files in the given folder. It neither syncs nor hashes them. */
const [directory = ''] = process.argv.slice(2);
const server = new Server({ path: '/files', datastore: new FileStore({ directory }) });
const http = server.listen({ host: '127.0.0.1', port: 0 }, () => {
  const address = http.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  process.send?.({ url: `http://127.0.0.1:${port}/files` });
});
process.on('disconnect', () => process.exit());
