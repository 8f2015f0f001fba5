"""Functions and methods of Python, torch and numpy, by what they do with what they are given."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NOTHING_KEPT = _words(
    "len int float str bool bytes isinstance issubclass hash id repr type range print abs round ord"
    " chr any all callable hasattr format divmod pow deepcopy super"
)
SAME_PARTS = _words(
    "list tuple dict set frozenset sorted enumerate zip reversed iter deque OrderedDict tqdm"
    " copy sample choices chain islice cycle"
)
A_PART = _words("next min max sum")

WRITING = _words(
    "append extend insert pop popitem remove clear update setdefault sort reverse add discard"
    " appendleft extendleft popleft rotate move_to_end difference_update intersection_update"
    " symmetric_difference_update __setitem__ __delitem__ __setattr__ __iadd__"
)
WRITING_TO_ARRAYS = _words("fill put itemset resize partition byteswap setfield setflags set_")
GATHERING = _words("append add appendleft insert put extend update setdefault extendleft")
"""Those that give their container what they are given."""

GATHERING_PARTS = _words("extend update extendleft")

READING_LIBRARIES = _words(
    "torch numpy math json itertools collections operator statistics random os time copy pathlib"
    " re hashlib struct functools string pickle"
)
WRITING_OF_LIBRARIES = _words(
    "shuffle heappush heappop heapify heapreplace heappushpop insort insort_left insort_right"
    " copyto put place putmask put_along_axis fill_diagonal setitem delitem iadd iconcat at"
    " partial"
)
NEW_RESULT = _words(
    "tensor stack cat array zeros_like ones_like empty_like full_like rand_like randn_like"
    " concatenate mean sum dumps deepcopy clone tolist item astype loads DataLoader"
)
READING = _words(
    "get items keys values index count copy split strip lower upper startswith endswith encode"
    " decode format join numpy clone detach to float long int item tolist size dim sum mean"
    " reshape view permute transpose astype cpu isoformat total_seconds timestamp"
)
