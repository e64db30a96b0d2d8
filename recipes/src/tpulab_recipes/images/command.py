"""The command `download` of the recipes that learn from images."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Literal

from tpulab_recipes.common.command_line import WithProgress, print_result
from tpulab_recipes.images.download import DownloadOptions, download, download_with_img2dataset


@dataclass(frozen=True, kw_only=True)
class Download(WithProgress, DownloadOptions):
    """Download the images listed in parquet tables into TFRecord shards."""

    downloader: Literal["auto", "img2dataset", "own"] = "auto"
    """auto: img2dataset if it is installed."""

    def run(self) -> None:
        installed = importlib.util.find_spec("img2dataset") is not None
        if self.downloader == "img2dataset" or (self.downloader == "auto" and installed):
            download_with_img2dataset(self)
            print_result(folder=self.write_dir)
        else:
            print_result(**download(self, self.progress()))
