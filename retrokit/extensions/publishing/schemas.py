"""The JSON that the command prints."""

from retrokit.extensions.publishing.upload import Pushed

OUTPUTS = {"push": Pushed}
