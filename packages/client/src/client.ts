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

/** Options of a download. */
export interface DownloadOptions extends RequestOptions {
  /** Request headers, such as `range`, `if-none-match` or `accept`. */
  headers?: Record<string, string> | undefined;
}

/** Options of a GET. */
export interface GetOptions extends DownloadOptions {
  /** Whether to send the client's token; needed for paths of the control API. Default: false. */
  authorize?: boolean | undefined;
}

/** A client of one Media Delivery Service. */
export interface Client extends ReadClient {
  /** The base URL, without a trailing slash. */
  readonly baseUrl: string;
  /** The operator's API; needs a token. */
  readonly control: ControlClient;
  /**
   * The URL of a rendition: `client.url(media, 'thumb', { extension: 'webp' })`. Makes no request.
   * Without an extension, the Accept field selects the format of an image. `hls`, `mp4`, `storyboard` and `audio` default to m3u8,
   * mp4, vtt and m4a.
   */
  url(media: MediaReference, name: string, options?: UrlOptions): string;
  /**
   * The value of an `<img srcset>`. Makes no request. With a manifest, it has the URLs and exact widths of the renditions. Otherwise
   * the URLs are computed from the id and the presets. The widths are then computed from the size of the media object and the presets.
   * With only an id, they are the widths of the presets. Empty for video and audio.
   */
  srcset(media: SrcsetMedia, options?: SrcsetOptions): string;
  /** Requests the manifest: everything that a page needs to show the media object. */
  manifest(media: MediaReference, options?: RequestOptions): Promise<Manifest>;
  /**
   * Sends a GET for a rendition by its URL or path, always without the token. Resolves when the headers have arrived; the caller
   * reads the body, and the signal still aborts it. Throws an `ApiError` for a status of 400 or above.
   */
  download(urlOrPath: string, options?: DownloadOptions): Promise<Response>;
  /** Sends a GET for any path of the service and resolves with the response. Throws an `ApiError` for a status of 400 or above. */
  get(path: string, options?: GetOptions): Promise<Response>;
}

/**
 * Creates a client. No request is sent.
 * @throws ConfigurationError if an option is invalid
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
      // Not validated: the client trusts the service for the shape, as it does for the contract's routes.
      return body as Manifest;
    },
    download: async (urlOrPath, { headers = {}, signal } = {}) => {
      return transport.get(checkedUrl(baseUrl, urlOrPath), { headers, signal });
    },
    get: async (path, { headers = {}, authorize = false, signal } = {}) => {
      if (!path.startsWith('/'))
        throw new ConfigurationError(`${JSON.stringify(path)} is not a path: a path begins with a slash`);
      return transport.get(baseUrl + path, { headers, authorize, signal });
    },
  };
}

function checkedUrl(baseUrl: string, urlOrPath: string): string {
  if (!URL.canParse(urlOrPath, `${baseUrl}/`)) {
    throw new ConfigurationError(`${JSON.stringify(urlOrPath)} is neither a URL nor a path`);
  }
  const url = absoluteUrl(baseUrl, urlOrPath);
  const { protocol, username, password } = new URL(url);
  // fetch refuses these too, but its message contains the password.
  if (username || password) throw new ConfigurationError('a URL must not contain a user name or a password');
  if (protocol !== 'http:' && protocol !== 'https:') throw new ConfigurationError(`${protocol} is not http: or https:`);
  return url;
}
