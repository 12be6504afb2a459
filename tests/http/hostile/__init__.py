"""Files made to harm whoever reads them, or broken in ways that readers have been caught by: pickles that run code,
archives and headers that say one thing twice, lengths beyond what is there, names and links that lead elsewhere. CASES
has a row for each: what it is called, what writes it into a directory,
the code of the refusal and words of its reason."""

from .archives import ARCHIVES
from .gguf import GGUF
from .headers import HEADERS
from .pickles import PICKLES
from .places import PLACES

CASES = [*HEADERS, *PICKLES, *ARCHIVES, *GGUF, *PLACES]
