/**
 * Completion and inspection on a subshell of the kernel, so that they are answered while a cell runs; the gateway closes it with the
 * page. A kernel without subshells, or whose features are not known yet, answers when its cell has ended.
 */
import type { Kernel, KernelMessage } from '@jupyterlab/services';

export class SideShell {
  constructor(private readonly kernel: Kernel.IKernelConnection) {
    // A restarted kernel has other shells.
    kernel.statusChanged.connect((_, status) => {
      if (status === 'restarting' || status === 'autorestarting' || status === 'dead') this._id = null;
    });
  }

  complete(content: KernelMessage.ICompleteRequestMsg['content']): Promise<KernelMessage.ICompleteReplyMsg> {
    return this.inTurn(() => this.kernel.requestComplete(content));
  }

  inspect(content: KernelMessage.IInspectRequestMsg['content']): Promise<KernelMessage.IInspectReplyMsg> {
    return this.inTurn(() => this.kernel.requestInspect(content));
  }

  private async inTurn<T>(request: () => Promise<T>): Promise<T> {
    const { kernel } = this;
    // The busy state cannot be determined: the idle message of a subshell looks like the kernel's.
    const id = kernel.supportsSubshells ? await this.shell() : null;
    // The connection sets the shell of a request when it is created; cells go to the main shell.
    kernel.subshellId = id;
    const answer = request();
    kernel.subshellId = null;
    return answer;
  }

  private shell(): Promise<string> {
    this._id ??= this.kernel.requestCreateSubshell({}).done.then(({ content }) => content.subshell_id);
    this._id.catch(() => {
      this._id = null;
    });
    return this._id;
  }

  private _id: Promise<string> | null = null;
}

const shells = new WeakMap<Kernel.IKernelConnection, SideShell>();

export function sideShellOf(kernel: Kernel.IKernelConnection): SideShell {
  const known = shells.get(kernel) ?? new SideShell(kernel);
  shells.set(kernel, known);
  return known;
}
