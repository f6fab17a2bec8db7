"""The JSON that the command prints."""

from retrokit.extensions.static.distil import Distilled

OUTPUTS = {"distil-static": Distilled}
