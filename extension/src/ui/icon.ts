/** Our icons, drawn for JupyterLab's themes. */
import { LabIcon, runIcon } from '@jupyterlab/ui-components';
import chipSvg from '../../../style/icons/chip.svg';
import connectSvg from '../../../style/icons/connect.svg';
import examplesSvg from '../../../style/icons/examples.svg';
import machineSvg from '../../../style/icons/machine.svg';

export const chipIcon = new LabIcon({ name: 'tpulab:chip', svgstr: chipSvg });
export const connectIcon = new LabIcon({ name: 'tpulab:connect', svgstr: connectSvg });
export const examplesIcon = new LabIcon({ name: 'tpulab:examples', svgstr: examplesSvg });
export const machineIcon = new LabIcon({ name: 'tpulab:machine', svgstr: machineSvg });
export const tourIcon = runIcon;
