"""`download` through img2dataset, where it is installed: the same flags, the same shards."""

from __future__ import annotations

import argparse

from tpulab_recipes.ddpm.errors import MissingPackage


def download_with_img2dataset(options: argparse.Namespace) -> None:
    """Hands the flags on. img2dataset shows its own progress and goes on where it stopped."""
    try:
        from img2dataset import download
    except ImportError as error:
        raise MissingPackage("img2dataset", "--downloader img2dataset") from error
    download(
        url_list=options.data_dir,
        input_format="parquet",
        url_col=options.url_col,
        caption_col=options.caption_col,
        save_additional_columns=[name for name in (options.score_col, options.class_col) if name] or None,
        output_folder=options.write_dir,
        output_format="tfrecord",
        image_size=options.image_size,
        min_image_size=options.min_image_size,
        resize_mode="keep_ratio",
        resize_only_if_bigger=False,
        processes_count=options.processes_count,
        thread_count=options.thread_count,
        number_sample_per_shard=options.samples_per_shard,
        incremental_mode="incremental",
    )
