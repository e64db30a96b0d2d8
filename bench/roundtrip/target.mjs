// @ts-check
/** What is measured: a way to reach a kernel. */

/**
 * @typedef {object} OpenTarget
 * @property {(code: string) => Promise<number>} execute one execution; milliseconds until reply and idle were there
 * @property {() => Promise<void>} close ends the connection, the kernel and the server
 */

/**
 * @typedef {object} Kernel
 * @property {readonly string[]} argv command of the kernel, with `{connection_file}`
 * @property {Readonly<Record<string, string>>} env variables of its kernelspec
 */

export {};
