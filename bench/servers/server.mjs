// @ts-check
/** The measured object: a server that has kernels, and a client's connection to one of them. */

/**
 * @typedef {object} Connection one client; the same code reads and writes for all servers
 * @property {string} session
 * @property {(channel: string, msgType: string, content: object, buffers?: readonly Buffer[]) => Promise<string>} send
 *   resolves with the msg_id once the bytes were accepted
 * @property {(see: Listener) => void} listen one listener at a time
 * @property {() => Promise<void>} close
 */

/** @typedef {(channel: string, parts: readonly Buffer[]) => void} Listener header, parent, metadata, content, buffers */

/**
 * @typedef {object} Server
 * @property {string} name
 * @property {number | null} pid of the process whose tree is the server; null when there is no server
 * @property {(spec?: string) => Promise<string>} startKernel resolves with its id
 * @property {(kernelId: string) => Promise<Connection>} connect
 * @property {(kernelId: string) => Promise<void>} endKernel
 * @property {() => Promise<void>} close ends the kernels and the server
 */

/**
 * @typedef {object} Kernel
 * @property {readonly string[]} argv command of the kernel, with `{connection_file}`
 * @property {Readonly<Record<string, string>>} env variables of its kernelspec
 */

/**
 * @typedef {object} Place
 * @property {string} folder for everything that the server writes; removed afterwards
 * @property {Kernel} kernel the kernel that each server runs
 * @property {string} jupyterPath folder of kernelspecs: `bench` is `kernel`, `light` a kernel that costs little
 */

export {};
