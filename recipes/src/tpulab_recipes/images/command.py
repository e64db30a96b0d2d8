"""The commands `download` and `import` of the recipes that learn from images."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Literal

import tyro

from tpulab_recipes.common.command_line import WithProgress, print_result
from tpulab_recipes.images.download import DownloadOptions, download, download_with_img2dataset
from tpulab_recipes.images.importing import ImportOptions, Kind, import_images


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


@dataclass(frozen=True, kw_only=True)
class Import(WithProgress, ImportOptions):
    """Import a data set of images into TFRecord shards."""

    kind: tyro.conf.Positional[Kind]
    """folder: images with captions in .txt files, metadata.csv or metadata.jsonl. imagenet: a folder for each
    class. cifar10: the published archive or its files. parquet: tables with images, also at
    hf://datasets/OWNER/NAME. webdataset: tar archives."""

    def run(self) -> None:
        print_result(**import_images(self.kind, self, self.progress()))
