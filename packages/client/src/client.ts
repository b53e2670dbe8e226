import type { Manifest } from '@mds/contract';
import { type ControlClient, createControlClient } from './control-client.ts';
import {
  absoluteUrl,
  deliveryUrl,
  type MediaReference,
  manifestUrl,
  type SrcsetMedia,
  type SrcsetOptions,
  srcset,
  type UrlOptions,
} from './delivery-url.ts';
import { ConfigurationError } from './errors.ts';
import { type ClientOptions, settingsOf } from './options.ts';
import { createReadClient, type ReadClient } from './read-client.ts';
import { createTransport, type RequestOptions } from './transport.ts';

/** How to download. */
export interface DownloadOptions extends RequestOptions {
  /** Fields to send: `range`, `if-none-match`, `accept`… */
  headers?: Record<string, string> | undefined;
}

/** How to GET a path. */
export interface GetOptions extends DownloadOptions {
  /** Sends the client's token along, as paths of the control API need; default false. */
  authorize?: boolean | undefined;
}

/** A client of one Media Delivery Service. */
export interface Client extends ReadClient {
  /** The base address, without a slash at its end. */
  readonly baseUrl: string;
  /** The operator's API; needs a token. */
  readonly control: ControlClient;
  /**
   * The address of a rendition: `client.url(media, 'thumb', { extension: 'webp' })`. Makes no request.
   * Without an extension the service chooses the picture's format by the Accept field; `hls`, `mp4`, `storyboard` and `audio`
   * have one of their own.
   */
  url(media: MediaReference, name: string, options?: UrlOptions): string;
  /**
   * The value of an `<img srcset>`. Makes no request; best given a manifest, well given a media object of the list (widths are
   * computed, never beyond the media object's own), and with an id alone it names the presets' widths. Empty for what is no picture.
   */
  srcset(media: SrcsetMedia, options?: SrcsetOptions): string;
  /** All that a page needs to show a media object. */
  manifest(media: MediaReference, options?: RequestOptions): Promise<Manifest>;
  /**
   * GETs a rendition by its address or path, without the token, whoever's the address is. Resolves with the headers; the
   * body is yours to read, and the signal still ends it. Statuses from 400 up are thrown.
   */
  download(urlOrPath: string, options?: DownloadOptions): Promise<Response>;
  /** GETs any path of the service. The answer comes as it is; statuses from 400 up are thrown. */
  get(path: string, options?: GetOptions): Promise<Response>;
}

/**
 * Makes a client. Sends nothing yet.
 * @throws ConfigurationError where an option cannot be right
 */
export function createClient(options: ClientOptions): Client {
  const settings = settingsOf(options);
  const { baseUrl } = settings;
  const transport = createTransport(settings);
  return {
    baseUrl,
    ...createReadClient(transport),
    control: createControlClient(transport),
    url: (media, name, options) => deliveryUrl(baseUrl, media, name, options),
    srcset: (media, options) => srcset(baseUrl, media, options),
    manifest: async (media, { signal } = {}) => {
      const body = await transport.getJson(manifestUrl(baseUrl, media), { signal });
      // As with the routes of the contract, the shape is the service's promise.
      return body as Manifest;
    },
    download: async (urlOrPath, { headers = {}, signal } = {}) => {
      return transport.get(checkedAddress(baseUrl, urlOrPath), { headers, signal });
    },
    get: async (path, { headers = {}, authorize = false, signal } = {}) => {
      if (!path.startsWith('/'))
        throw new ConfigurationError(`${JSON.stringify(path)} is not a path: it begins with a slash`);
      return transport.get(baseUrl + path, { headers, authorize, signal });
    },
  };
}

function checkedAddress(baseUrl: string, urlOrPath: string): string {
  if (!URL.canParse(urlOrPath, `${baseUrl}/`)) {
    throw new ConfigurationError(`${JSON.stringify(urlOrPath)} is neither an address nor a path`);
  }
  const address = absoluteUrl(baseUrl, urlOrPath);
  const { protocol, username, password } = new URL(address);
  // fetch refuses these too, with a message that holds the password.
  if (username || password) throw new ConfigurationError('an address must not hold a user name or a password');
  if (protocol !== 'http:' && protocol !== 'https:') throw new ConfigurationError(`${protocol} is not http: or https:`);
  return address;
}
