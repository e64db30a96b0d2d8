/** For specs: a folder with the parts of `/` in which Linux shows chips and their holders. */
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Generation } from './traces.js';

export class FakeMachine implements AsyncDisposable {
  private constructor(readonly root: string) {}

  static async make(): Promise<FakeMachine> {
    return new FakeMachine(await mkdtemp(path.join(tmpdir(), 'tpl-machine-')));
  }

  async write(file: string, text: string): Promise<void> {
    const at = path.join(this.root, file);
    await mkdir(path.dirname(at), { recursive: true });
    await writeFile(at, text);
  }

  async link(file: string, target: string): Promise<void> {
    const at = path.join(this.root, file);
    await mkdir(path.dirname(at), { recursive: true });
    await symlink(target, at);
  }

  async addChips({ chips, pciDevice, pciSubsystem, node }: Generation): Promise<void> {
    for (let index = 0; index < chips; index++) {
      const at = `sys/bus/pci/devices/0000:00:${(index + 4).toString(16).padStart(2, '0')}.0`;
      await this.write(`${at}/vendor`, '0x1ae0\n');
      await this.write(`${at}/device`, `${pciDevice}\n`);
      await this.write(`${at}/subsystem_device`, `${pciSubsystem ?? '0x0000'}\n`);
      if (node === 'accel')
        await mkdir(path.join(this.root, at, 'accel', `accel${index}`), { recursive: true });
      else {
        await this.link(`${at}/iommu_group`, `../../../../kernel/iommu_groups/${index + 10}`);
        await this.write(`dev/vfio/${index + 10}`, '');
      }
    }
  }

  async addProcess(pid: number, command: string, ...open: string[]): Promise<void> {
    await this.write(`proc/${pid}/comm`, `${command}\n`);
    for (const [fd, target] of open.entries()) await this.link(`proc/${pid}/fd/${fd}`, target);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true });
  }
}
