"""What the recipes share: errors, folders, settings, command lines, progress, logs, and runs that a page
steers.

Models, losses and training loops are each recipe's own.
"""
