"""What Paceline knows about each dataset: size, licence, where to get it, how its files lie, digests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paceline.data.dataset import Dataset
from paceline.data.files import Layout, npz_layout
from paceline.data.loaders.cifar import CIFAR10, CIFAR100
from paceline.data.loaders.digits import digits
from paceline.data.loaders.femnist import FEMNIST
from paceline.data.loaders.mnist import idx_layout
from paceline.data.loaders.skin import DERMAMNIST, HAM10000
from paceline.data.loaders.synthetic import synthetic
from paceline.data.loaders.tiny import TINY_IMAGENET


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What Paceline knows about a dataset: where its files lie, and what its publisher says of them."""

    name: str
    shape: tuple[int, ...]
    classes: int
    licence: str
    how_to_get: str
    counts: tuple[int, int] | None = None
    """Published numbers of training and test samples; None where they depend on how it was made."""
    layouts: tuple[Layout, ...] = ()
    make: Callable[..., Dataset] | None = None
    """For the datasets that need no file; takes the numbers after the colon."""
    options: tuple[str, ...] = ()
    """Names of the numbers that may follow the name, as in ``ham10000:28``."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """The MD5 digests that the publisher gives, by file name."""
    idx_digests: tuple[str, ...] = ()
    """MD5 of the four unpacked idx files, checked whatever layout was read."""


_DIGITS = Spec(
    name="digits",
    shape=(1, 8, 8),
    classes=10,
    licence="CC BY 4.0 (UCI, Alpaydin and Kaynak 1998)",
    how_to_get="comes with scikit-learn",
    counts=(1437, 360),
    make=digits,
)
_SYNTHETIC = Spec(
    name="synthetic",
    shape=(60,),
    classes=10,
    licence="generated",
    how_to_get="generated: synthetic:ALPHA,BETA,CLIENTS",
    make=lambda *options: synthetic(*options[:2], *(int(n) for n in options[2:])),
    options=("alpha", "beta", "clients"),
)
_MNIST = Spec(
    name="mnist",
    shape=(1, 28, 28),
    classes=10,
    licence="CC BY-SA 3.0",
    how_to_get="fetch the four idx files from https://ossci-datasets.s3.amazonaws.com/mnist/ into mnist/",
    counts=(60_000, 10_000),
    layouts=(npz_layout("mnist", 10), idx_layout("mnist", ("mnist", "MNIST/raw"))),
    digests={
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
    idx_digests=(
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
)
_FASHION = Spec(
    name="fashion-mnist",
    shape=(1, 28, 28),
    classes=10,
    licence="MIT",
    how_to_get=(
        "on Debian `apt install dataset-fashion-mnist`; else fetch the four idx files from "
        "https://github.com/zalandoresearch/fashion-mnist (data/fashion) into fashion-mnist/"
    ),
    counts=(60_000, 10_000),
    layouts=(
        npz_layout("fashion-mnist", 10),
        idx_layout("fashion-mnist", ("fashion-mnist", "FashionMNIST/raw", "/usr/share/datasets/fashion-mnist")),
    ),
    digests={
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
)
_CIFAR10 = Spec(
    name="cifar10",
    shape=(3, 32, 32),
    classes=10,
    licence="none stated; cite Krizhevsky 2009",
    how_to_get=(
        "fetch and unpack cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html; "
        "from a pair cifar10_lossless_a.npz, cifar10_lossless_b.npz make cifar10.npz with the "
        "cifar10_codec.py that comes with it: `python cifar10_codec.py unpack DIR DIR/cifar10.npz`"
    ),
    counts=(50_000, 10_000),
    layouts=(npz_layout("cifar10", 10), *CIFAR10),
    digests={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
    },
)
_CIFAR100 = Spec(
    name="cifar100",
    shape=(3, 32, 32),
    classes=100,
    licence="none stated; cite Krizhevsky 2009",
    how_to_get="fetch and unpack cifar-100-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html",
    counts=(50_000, 10_000),
    layouts=(npz_layout("cifar100", 100), *CIFAR100),
    digests={"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
)
_FEMNIST = Spec(
    name="femnist",
    shape=(1, 28, 28),
    classes=62,
    licence="LEAF: BSD 2-Clause; NIST Special Database 19 is public",
    how_to_get=(
        "clone https://github.com/TalwalkarLab/leaf, run data/femnist/preprocess.sh there "
        "(`-s niid --sf 1.0 -k 0 -t sample` for all writers), "
        "and put its data/train and data/test under femnist/data/"
    ),
    layouts=(npz_layout("femnist", 62), *FEMNIST),
)
_HAM10000 = Spec(
    name="ham10000",
    shape=(3, 64, 64),
    classes=7,
    licence="CC BY-NC 4.0",
    how_to_get=(
        "fetch HAM10000_metadata and both HAM10000_images_part archives from "
        "https://doi.org/10.7910/DVN/DBW86T and unpack them under ham10000/"
    ),
    layouts=HAM10000,
    options=("size",),
)
_DERMAMNIST = Spec(
    name="dermamnist",
    shape=(3, 28, 28),
    classes=7,
    licence="CC BY-NC 4.0",
    how_to_get="fetch dermamnist.npz from https://zenodo.org/records/10519652 (MedMNIST v2)",
    counts=(7007, 2005),
    layouts=DERMAMNIST,
    digests={"dermamnist.npz": "0744692d530f8e62ec473284d019b0c7"},
)
_TINY = Spec(
    name="tiny-imagenet",
    shape=(3, 64, 64),
    classes=200,
    licence="ImageNet terms: research only",
    how_to_get="fetch and unpack http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    counts=(100_000, 10_000),
    layouts=(npz_layout("tiny-imagenet", 200), *TINY_IMAGENET),
    options=("size",),
)

SPECS: Mapping[str, Spec] = {
    spec.name: spec
    for spec in (
        _DIGITS,
        _MNIST,
        _FASHION,
        _CIFAR10,
        _CIFAR100,
        _FEMNIST,
        _HAM10000,
        _DERMAMNIST,
        _TINY,
        _SYNTHETIC,
    )
}
